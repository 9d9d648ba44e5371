-- Offers the provider has just refused for want of stock, so that nobody asks for them again for a few minutes.
-- One row an offer: the table cannot outgrow the provider's catalogue.
CREATE TABLE corral_failed_offers (
    product_id text NOT NULL,
    cluster_id text NOT NULL,
    billing_mode text NOT NULL,
    failed_at timestamptz NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (product_id, cluster_id, billing_mode)
);

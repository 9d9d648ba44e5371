-- Offers that the provider refused for want of stock, by how many GPUs were asked for: a shortage of eight says nothing
-- about one. Takes the place of corral_failed_offers, which stays for processes of the release before.
CREATE TABLE corral_shortages (
    product_id text NOT NULL,
    cluster_id text NOT NULL,
    billing_mode text NOT NULL,
    gpu_num integer NOT NULL,
    failed_at timestamptz NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (product_id, cluster_id, billing_mode, gpu_num)
);

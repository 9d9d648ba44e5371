// Where Corral is served, without a trailing slash: empty at the root of a host, `/corral` behind a proxy with that prefix.

export const ROOT = new URL("../../", import.meta.url).pathname.slice(0, -1);

// The form for a new instance like the one with this id.
export const copyOf = (id) => `${ROOT}/?duplicate=${encodeURIComponent(id)}#create`;
export const pageOf = (id) => `${ROOT}/instances/${encodeURIComponent(id)}`;

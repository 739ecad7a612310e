//! Tells the crate which interpreter it is built for: one without a GIL needs a swap where others need a store.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}

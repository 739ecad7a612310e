//! How the library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The dynamic linker runs this library's constructor before all others, so that whatever another one's registers for forks is called while
    // no lock of ours is held.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst");
}

//! The shared library's versioned name. It changes with `RANKWAY_ABI`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librankway.so.1");
        // It has threads, and handlers at exit.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}

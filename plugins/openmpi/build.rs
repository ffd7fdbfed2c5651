//! Bindings of the installed Open MPI's internal headers, and the C shim.
//!
//! The headers are those that `mpicc.openmpi` (or `$RANKWAY_MPICC`) compiles
//! with. Structures differ from minor version to minor version, so the version
//! is compiled in and compared with the running one when the library is loaded.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for file in ["build.rs", "src/ffi/wrapper.h", "src/ffi/shim.c", "src/ffi/osc.c"] {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-env-changed=RANKWAY_MPICC");
    let mpicc = compiler();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut includes: Vec<PathBuf> = words(&mpicc, "--showme:incdirs").collect();
    includes.push(missing_headers(&out));
    if !includes.iter().any(|dir| dir.join("ompi/mca/mtl/mtl.h").exists()) {
        panic!(
            "{mpicc} has no ompi/mca/mtl/mtl.h; install Open MPI's internal headers (Debian: libopenmpi-dev)"
        );
    }

    // 5.0 has other structures in a few places.
    println!("cargo::rustc-check-cfg=cfg(openmpi5)");
    let five = version(&mpicc).starts_with("5.");
    if five {
        println!("cargo::rustc-cfg=openmpi5");
    }

    let mut bindings = bindgen::Builder::default()
        .header("src/ffi/wrapper.h")
        .clang_args(includes.iter().map(|dir| format!("-I{}", dir.display())))
        // A type that a clang older than Open MPI's compiler may not know, and
        // nothing here uses.
        .clang_args(["-DNDEBUG", "-mcx16", "-D_Float16=short"])
        .allowlist_item("(mca|ompi|opal|orte|P?MPI|MCA|OMPI|OPAL|rw|RW|CONVERTOR)_.*");
    // Their long doubles and 128-bit integers are of no use here.
    bindings = bindings.blocklist_function(".*(strtold|_int128).*");
    bindings
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(false)
        .derive_debug(false)
        .layout_tests(false)
        .generate_comments(false)
        .merge_extern_blocks(true)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .generate()
        .unwrap_or_else(|error| panic!("bindings of Open MPI's headers: {error}"))
        .write_to_file(out.join("openmpi.rs"))
        .unwrap_or_else(|error| panic!("writing openmpi.rs: {error}"));

    cc::Build::new()
        .file("src/ffi/shim.c")
        .file("src/ffi/osc.c")
        .includes(&includes)
        .define("NDEBUG", None)
        .flag_if_supported("-mcx16")
        .flag("-Wno-unused-parameter")
        .opt_level(3)
        .compile("rankway_openmpi_shim");

    for dir in words(&mpicc, "--showme:libdirs") {
        println!("cargo::rustc-link-search=native={}", dir.display());
    }
    let runtime = if five { None } else { Some("open-rte") };
    for library in ["mpi", "open-pal"].into_iter().chain(runtime) {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    // Threads of the network libraries must not outlive the code they run.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

/// Open MPI's compiler wrapper.
fn compiler() -> String {
    let named = std::env::var("RANKWAY_MPICC").ok();
    let names = named.into_iter().chain(["mpicc.openmpi".into(), "mpicc".into()]);
    let is_open_mpi = |name: &String| {
        let said = Command::new(name).arg("--showme:version").output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("Open MPI"))
    };
    let found = names.into_iter().find(is_open_mpi);
    found.expect("Open MPI's mpicc (Debian: libopenmpi-dev), or its name in RANKWAY_MPICC")
}

/// Its version, like `4.1.4`.
fn version(mpicc: &str) -> String {
    let said = Command::new(mpicc).arg("--showme:version").output().expect("it ran a moment ago");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.split_once("Open MPI ").map_or(String::new(), |(_, rest)| rest.to_owned())
}

fn words(mpicc: &str, what: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let said = Command::new(mpicc).arg(what).output().expect("it ran a moment ago");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.split_whitespace().map(PathBuf::from).collect::<Vec<_>>().into_iter()
}

/// Debian's package leaves out a header of the Fortran interface that op.h
/// includes and nothing here uses.
fn missing_headers(out: &Path) -> PathBuf {
    let dir = out.join("missing");
    let file = dir.join("ompi/mpi/fortran/base/fint_2_int.h");
    std::fs::create_dir_all(file.parent().expect("it has one")).expect("OUT_DIR is ours");
    std::fs::write(&file, "#define OMPI_INT_2_FINT(n) (n)\n#define OMPI_FINT_2_INT(n) (n)\n")
        .expect("OUT_DIR is ours");
    dir
}

//! Tells the crate its compiler, and needs no other tool unless the feature
//! `bindgen` is on.
//!
//! With it, the three bindings files are made again from `wrapper*.h` into
//! `OUT_DIR`. The crate never compiles those: it compiles the checked-in
//! copies, and `ci/bindings.sh` compares the two (`BLESS=1` replaces them).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=RANKWAY_RUSTC={}", compiler());
    #[cfg(feature = "bindgen")]
    bindings::regenerate();
}

/// The compiler's name and version: instruction counts are of its making.
fn compiler() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = std::process::Command::new(rustc).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    text.unwrap_or_else(|_| "unknown".into())
}

#[cfg(feature = "bindgen")]
mod bindings {
    use std::path::PathBuf;

    use bindgen::callbacks::{IntKind, ParseCallbacks};

    /// Gives each constant the type of the field or return value it is for;
    /// bindgen alone would give it the smallest type that holds it.
    #[derive(Debug)]
    struct Types;

    impl ParseCallbacks for Types {
        fn int_macro(&self, name: &str, _: i64) -> Option<IntKind> {
            let size = IntKind::Custom { name: "usize", is_signed: false };
            match name {
                "FI_SHARED_CONTEXT" => Some(size),
                _ if name.ends_with("_VERSION") => Some(IntKind::U32),
                _ if name.ends_with("_OFFSET") || name == "FI_PROV_SPECIFIC" => Some(IntKind::U32),
                "FI_EVENT" => Some(IntKind::U64),
                // Error numbers and `fi_domain_attr::mr_mode` are ints; every
                // other FI_ macro is a 64-bit capability, mode or flag.
                _ if name.starts_with("FI_E") || name.starts_with("FI_MR_") => Some(IntKind::Int),
                "FI_SUCCESS" => Some(IntKind::Int),
                _ if name.starts_with("FI_") => Some(IntKind::U64),

                "PMIX_SUCCESS" | "PMIX_ERROR" => Some(IntKind::Int),
                _ if name.starts_with("PMIX_ERR_") => Some(IntKind::Int),
                "PMIX_LOCAL" | "PMIX_REMOTE" | "PMIX_GLOBAL" | "PMIX_INTERNAL" => Some(IntKind::U8),
                _ if name.starts_with("PMIX_RANK_") => Some(IntKind::U32),
                "PMIX_MAX_NSLEN" | "PMIX_MAX_KEYLEN" => Some(size),
                _ if name.starts_with("PMIX_VERSION") => Some(IntKind::U32),
                _ if name.starts_with("PMIX_") => Some(IntKind::U16),
                _ => None,
            }
        }
    }

    struct Library {
        header: &'static str,
        output: &'static str,
        /// Types, variables (macros and enum constants) to keep.
        types: &'static str,
        vars: &'static str,
        /// Types to leave out ("-" for none), or to leave opaque.
        without: &'static str,
        opaque: &'static str,
        include: &'static [&'static str],
    }

    const LIBRARIES: [Library; 3] = [
        Library {
            header: "wrapper.h",
            output: "ofi.rs",
            types: "fi_.*|fid.*",
            vars: "FI_.*",
            // A flexible array member and the event queue that carries it.
            without: "fi_eq_cm_entry|(__)?pthread_.*|__atomic_wide_counter.*|pollfd",
            opaque: "fi_mutex_cond|fi_wait_pollfd",
            include: &[],
        },
        Library {
            header: "wrapper-ucx.h",
            output: "ucx.rs",
            types: "ucp_.*|ucs_(status|memory_type|thread_mode).*",
            vars: "UCP_.*|UCS_(OK|INPROGRESS|ERR_.*|MEMORY_TYPE_.*|THREAD_MODE_.*)",
            without: "-",
            opaque: "sockaddr.*",
            include: &[],
        },
        Library {
            header: "wrapper-pmix.h",
            output: "pmix.rs",
            types: "pmix_(status|rank|nspace|key|proc|value|info|data_type|byte_object|scope)_t",
            vars: concat!(
                "PMIX_(SUCCESS|ERROR|ERR_(TIMEOUT|UNREACH|BAD_PARAM|INIT|NOMEM|NOT_FOUND",
                "|NOT_SUPPORTED|LOST_CONNECTION|INVALID_NAMESPACE|PROC_ABORTED|EXISTS_OUTSIDE_SCOPE)",
                "|MAX_(NSLEN|KEYLEN)|RANK_.*|UNDEF|STRING|BOOL|SIZE|INT(8|16|32|64)?",
                "|UINT(8|16|32|64)?|BYTE_OBJECT|PROC_RANK|LOCAL|REMOTE|GLOBAL|INTERNAL",
                "|VERSION_(MAJOR|MINOR)|JOB_SIZE|UNIV_SIZE|LOCAL_(SIZE|RANK|PEERS)",
                "|NODEID|NODE_(RANK|SIZE|MAP)|PROC_MAP|NUM_NODES|HOSTNAME",
                "|COLLECT_DATA|TIMEOUT|IMMEDIATE|OPTIONAL|TMPDIR|NSDIR)",
            ),
            without: "-",
            opaque: "pmix_(proc|disk|net|node)_stats.*|pmix_(geometry|device_distance|endpoint|coord|cpuset|topology|data_buffer|envar|proc_info).*",
            // Debian keeps the headers in a directory of their own.
            include: &["/usr/lib/x86_64-linux-gnu/pmix2/include"],
        },
    ];

    pub(crate) fn regenerate() {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        for library in &LIBRARIES {
            println!("cargo::rerun-if-changed={}", library.header);
            bindgen::Builder::default()
                .header(library.header)
                .clang_args(library.include.iter().map(|dir| format!("-I{dir}")))
                .parse_callbacks(Box::new(Types))
                .allowlist_type(library.types)
                .allowlist_var(library.vars)
                .blocklist_type(library.without)
                .opaque_type(library.opaque)
                .ignore_functions()
                .default_enum_style(bindgen::EnumVariation::Consts)
                .prepend_enum_name(false)
                .derive_default(false)
                .layout_tests(false)
                .generate_comments(false)
                .generate_cstr(true)
                .use_core()
                .merge_extern_blocks(true)
                .formatter(bindgen::Formatter::Prettyplease)
                .disable_header_comment()
                .raw_line(format!(
                    "// Generated by bindgen from {}; `BLESS=1 ci/bindings.sh` makes it again.",
                    library.header
                ))
                .raw_line(concat!(
                    "#![allow(missing_docs, non_camel_case_types, dead_code, unused_imports,",
                    " unreachable_pub, clippy::all)]",
                ))
                .rust_edition(bindgen::RustEdition::Edition2024)
                .rust_target(bindgen::RustTarget::stable(85, 0).ok().expect("a known Rust"))
                .generate()
                .unwrap_or_else(|error| panic!("bindings of {}: {error}", library.header))
                .write_to_file(out.join(library.output))
                .unwrap_or_else(|error| panic!("writing {}: {error}", library.output));
        }
    }
}

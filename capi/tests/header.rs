//! `include/rankway.h` is what the sources give: cbindgen's declarations and
//! the inline functions of `capi/inline.h`, in one guard. `BLESS=1` writes it.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "\
/* Rankway: rank maps, address vectors and one-sided operations for MPI device
 * layers. docs/device-layer.md maps these calls to those of MPICH and Open MPI.
 *
 * Made of capi/src and capi/inline.h; do not edit (BLESS=1 ci/check/header.sh).
 *
 * Every call answers a rankway_code. After an error rankway_error_message tells
 * what happened to which object and peer, and what to do. Handles are small
 * structures: zeroed they are null; one that was freed, is of another kind or
 * belongs to another thread is refused with a code. Pointers are null or good.
 */";

const ENUMS: [&str; 9] = [
    "rankway_code",
    "rankway_threads",
    "rankway_type",
    "rankway_op",
    "rankway_lock",
    "rankway_assert",
    "rankway_comparison",
    "rankway_order",
    "rankway_distribution",
];

/// cbindgen's text, as C's readers have it: parameters without the underscore
/// that keeps them apart from functions in Rust, negative numbers in brackets.
fn tidy(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for name in ["self", "rank", "ranks", "ranges", "group", "assert"] {
            for after in [",", ")"] {
                line = line.replace(&format!("{name}_{after}"), &format!("{name}{after}"));
            }
        }
        line = line.replace("*self_;", "*self;");
        if let Some((define, number)) = line.split_once(" -").filter(|_| line.starts_with("#def")) {
            line = format!("{define} (-{number})");
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn generate(root: &Path) -> Result<String, Box<dyn Error>> {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        cpp_compat: false,
        documentation_style: cbindgen::DocumentationStyle::Doxy,
        style: cbindgen::Style::Both,
        line_length: 100,
        tab_width: 4,
        no_includes: true,
        usize_is_size_t: true,
        export: cbindgen::ExportConfig {
            // Arguments are ints, as C has it, so nothing else brings these in.
            include: ENUMS.map(str::to_owned).to_vec(),
            ..Default::default()
        },
        ..Default::default()
    };
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in [
        "abi",
        "error",
        "calls/device",
        "calls/rankmap",
        "calls/comm",
        "calls/group",
        "calls/datatype",
        "calls/win",
        "calls/rma",
        "calls/epoch",
        "calls/message",
        "calls/am",
        "calls/cq",
        "calls/other_jobs",
    ] {
        builder = builder.with_src(root.join(format!("capi/src/{file}.rs")));
    }
    let mut declared = Vec::new();
    builder.generate()?.write(&mut declared);
    let declared = tidy(&String::from_utf8(declared)?);
    let inline = std::fs::read_to_string(root.join("capi/inline.h"))?;
    let mut text = String::new();
    writeln!(text, "{HEAD}\n#ifndef RANKWAY_H\n#define RANKWAY_H\n")?;
    writeln!(text, "#include <stddef.h>\n#include <stdint.h>\n")?;
    writeln!(text, "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n")?;
    writeln!(text, "{}\n", declared.trim())?;
    writeln!(text, "{}\n", inline.trim())?;
    writeln!(text, "#ifdef __cplusplus\n}}\n#endif\n\n#endif /* RANKWAY_H */")?;
    Ok(text)
}

#[test]
fn the_header_is_what_the_sources_give() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join("include/rankway.h");
    let made = generate(&root)?;
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, made)?;
        return Ok(());
    }
    let kept = std::fs::read_to_string(&path)?;
    if made != kept {
        let differs = made.lines().zip(kept.lines()).position(|(a, b)| a != b);
        let line = differs.map_or(0, |at| at + 1);
        return Err(format!(
            "include/rankway.h differs from line {line}: BLESS=1 ci/check/header.sh"
        )
        .into());
    }
    Ok(())
}

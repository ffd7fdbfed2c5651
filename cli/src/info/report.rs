//! `rankway info` for people.

use super::{Choice, Info, Library, short};
use crate::output::{NONE, Table, bytes, count, fold, maybe, sentence, wrap};
use std::io::{self, Write};

/// In lines of so many columns, as far as words allow.
pub(super) fn text(info: &Info, columns: usize, out: &mut impl Write) -> io::Result<()> {
    let mut text = Vec::new();
    whole(info, columns, &mut text)?;
    out.write_all(fold(&String::from_utf8_lossy(&text), columns).as_bytes())
}

fn whole(info: &Info, width: usize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# rankway info {}", info.version)?;
    if !info.environment.is_empty() {
        let set: Vec<String> =
            info.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "# in force: {}", set.join(" "))?;
    }
    for setting in &info.unusable {
        writeln!(out, "# {}: {}", setting.name, setting.why)?;
    }
    writeln!(out, "#\n# Libraries, opened at run time")?;
    let library = |name: &str, library: &Library| {
        let place = library.path.clone().or_else(|| library.error.as_deref().map(short));
        [name.into(), maybe(library.version.clone()), maybe(place)]
    };
    columns(
        &["library", "version", "file"],
        &[
            library("libfabric", &info.libfabric),
            library("UCX", &info.ucx),
            library("PMIx", &info.pmix),
        ],
        width,
        out,
    )?;

    if info.libfabric.found {
        writeln!(out, "#")?;
        providers(info, width, out)?;
        writeln!(out, "#\n# What a device opened now would take")?;
        let choice = |peers: &str, choice: &Choice| {
            [peers.into(), maybe(choice.provider.clone()), choice.why.clone()]
        };
        columns(
            &["peers", "provider", "why"],
            &[choice("on this node", &info.choice.node), choice("elsewhere", &info.choice.network)],
            width,
            out,
        )?;
    }

    if !info.ucx_transports.is_empty() {
        let all = info.ucx_transports.join(" ");
        writeln!(
            out,
            "#\n# UCX's transports and devices (UCX_TLS, UCX_NET_DEVICES), with its own flush\n{all}"
        )?;
    }

    writeln!(
        out,
        "#\n# Launchers in PATH; none is needed on one machine: rankway forks its ranks"
    )?;
    let launchers: Vec<[String; 5]> = info
        .launchers
        .iter()
        .map(|l| {
            let product = l.product.unwrap_or("unknown");
            let interface = maybe(l.interface);
            [l.name.clone(), product.into(), maybe(l.version.clone()), interface, l.path.clone()]
        })
        .collect();
    if launchers.is_empty() {
        writeln!(out, "# (none)")?;
    } else {
        columns(&["launcher", "product", "version", "peers by", "file"], &launchers, width, out)?;
    }

    writeln!(out, "#\n# This machine")?;
    machine(info, width, out)?;

    writeln!(out, "#\n# What operations cost, by which noncontiguous data travels")?;
    let costs: Vec<[String; 2]> = info.costs.iter().map(super::ProviderCosts::row).collect();
    columns(&[], &costs, width, out)?;

    writeln!(out, "#")?;
    if info.missing.is_empty() {
        return writeln!(out, "# Nothing is missing.");
    }
    writeln!(out, "# Missing, and how to get it")?;
    for missing in &info.missing {
        let needed = if missing.needed { "needed" } else { "not needed" };
        writeln!(out, "{} ({needed}): {}", missing.what, missing.why)?;
        if let Some(package) = missing.debian {
            writeln!(out, "    Debian, Ubuntu: apt install {package}")?;
        }
        if let Some(package) = missing.pypi {
            writeln!(out, "    PyPI: pip install {package}")?;
        }
        if let Some(advice) = &missing.r#try {
            writeln!(out, "    or: {advice}")?;
        }
    }
    Ok(())
}

fn providers(info: &Info, width: usize, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "provider",
        "version",
        "RMA",
        "inject",
        "flush\nasks",
        "longest\nmessage",
        "key\nbytes",
        "progress",
        "most\npeers",
        "registration",
        "domains",
    ]);
    table.title("Providers of libfabric, reliable datagram endpoints");
    for p in &info.providers {
        let modes = if p.mr_mode.is_empty() { NONE.into() } else { p.mr_mode.join(",") };
        let name = match p.only_by_name {
            true => format!("{} (1)", p.name),
            false => p.name.clone(),
        };
        table.row(&[
            name,
            p.version.clone(),
            if p.rma { "yes" } else { "no" }.into(),
            count(p.inject_size as u64),
            if p.delivers { "copied (2)" } else { "all" }.into(),
            message(p.max_message),
            p.key_size.to_string(),
            p.progress.into(),
            maybe(p.max_peers),
            modes,
            domains(&p.domains),
        ]);
    }
    if info.providers.iter().any(|p| p.only_by_name) {
        table.note("(1) taken only when named, with RANKWAY_PROVIDER or FI_PROVIDER");
    }
    if info.providers.iter().any(|p| p.delivers) {
        table.note(
            "(2) a flush reads back from targets of puts up to the inject size; others are over when \
             they complete",
        );
    }
    table.print_within(width, out)
}

/// Bytes; more than a petabyte is no limit.
fn message(longest: usize) -> String {
    if longest as u64 >= 1 << 50 { "any".into() } else { bytes(longest as u64) }
}

fn domains(all: &[String]) -> String {
    match all {
        [] => NONE.into(),
        [one] => one.clone(),
        [one, two] => format!("{one},{two}"),
        [one, two, rest @ ..] => format!("{one},{two},+{}", rest.len()),
    }
}

fn machine(info: &Info, width: usize, out: &mut impl Write) -> io::Result<()> {
    let m = &info.machine;
    let unlimited = |value: Option<String>| value.unwrap_or_else(|| "unlimited".into());
    let able = |able: bool, error: &Option<String>| match (able, error) {
        (true, _) => "yes".to_owned(),
        (false, Some(why)) => format!("no: {why}"),
        (false, None) => "no".to_owned(),
    };
    let shm = match (m.shm_bytes, m.shm_free_bytes) {
        (Some(size), Some(free)) => format!("{}, {} free", bytes(size), bytes(free)),
        _ => "none".into(),
    };
    let devices = match m.rdma_devices.as_slice() {
        [] => "none".into(),
        devices => devices.join(", "),
    };
    let rows: [[String; 2]; 9] = [
        ["processors".into(), format!("{} ({})", m.processors, m.architecture)],
        ["kernel".into(), maybe(m.kernel.clone())],
        ["memory".into(), maybe(m.memory_bytes.map(bytes))],
        ["locked memory".into(), unlimited(m.locked_memory_bytes.map(bytes))],
        ["open files".into(), unlimited(m.open_files.map(count))],
        ["/dev/shm".into(), shm],
        ["RDMA devices".into(), devices],
        ["ptrace, for rankway count".into(), able(m.ptrace, &m.ptrace_error)],
        ["hardware counters".into(), able(m.hardware_counters, &m.hardware_counters_error)],
    ];
    let rows: Vec<[String; 2]> = rows.into_iter().chain(info.memory.rows()).collect();
    columns(&[], &rows, width, out)
}

/// Left-aligned columns, the last, of prose, as wide as it is; a sentence for each
/// row where they do not fit.
fn columns<const N: usize>(
    head: &[&str],
    rows: &[[String; N]],
    within: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut widths = [0; N];
    for (column, width) in widths.iter_mut().enumerate() {
        let mark = if column == 0 { 2 } else { 0 };
        let head = head.get(column).map_or(0, |cell| cell.chars().count() + mark);
        let cells = rows.iter().map(|row| row[column].chars().count());
        *width = cells.chain([head]).max().unwrap_or(0);
    }
    let before = widths.iter().take(N - 1).map(|width| width + 2).sum::<usize>();
    if before + widths[N - 1] > within && 2 * before > within {
        return rows.iter().try_for_each(|row| writeln!(out, "{}", sentence(head, row)));
    }
    let mut line = |cells: &[String]| {
        let Some((prose, others)) = cells.split_last() else { return Ok(()) };
        let mut line = String::new();
        for (cell, width) in others.iter().zip(widths) {
            line += &format!("{cell:<width$}  ");
        }
        let space = within - before;
        line += &wrap(prose, space, space).join(&format!("\n{:before$}", ""));
        writeln!(out, "{}", line.trim_end())
    };
    if !head.is_empty() {
        let mut cells: Vec<String> = head.iter().map(ToString::to_string).collect();
        cells[0].insert_str(0, "# ");
        line(&cells)?;
    }
    rows.iter().try_for_each(|row| line(row))
}

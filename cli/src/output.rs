//! Tables for people and for machines: columns that line up under `#` heads,
//! in the style of the OSU micro-benchmarks, and the same table as CSV.

use indicatif::{ProgressBar, ProgressStyle};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use unicode_width::UnicodeWidthStr as _;

/// A table; the first column is of names and left-aligned, the others are of
/// numbers and right-aligned.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    title: Vec<String>,
    head: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<String>),
    Note(String),
}

/// Shown for a figure that does not exist.
pub(crate) const NONE: &str = "-";

impl Table {
    /// With these column heads; a `\n` in a head makes a second head line.
    pub(crate) fn new<S: AsRef<str>>(head: &[S]) -> Self {
        let head = head.iter().map(|cell| cell.as_ref().to_owned()).collect();
        Self { title: Vec::new(), head, rows: Vec::new() }
    }

    /// Adds a `#` line above the heads.
    pub(crate) fn title(&mut self, line: impl Into<String>) -> &mut Self {
        self.title.push(shown(&line.into()).into_owned());
        self
    }

    /// Adds a row. Missing cells are empty, more than heads are kept. What a terminal would obey is
    /// [`shown`], here and in other lines.
    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: &[S]) -> &mut Self {
        let cells = cells.iter().map(|cell| shown(cell.as_ref()).into_owned());
        self.rows.push(Row::Cells(cells.collect()));
        self
    }

    /// Adds a `#` line between rows, for people only.
    pub(crate) fn note(&mut self, line: impl Into<String>) -> &mut Self {
        self.rows.push(Row::Note(shown(&line.into()).into_owned()));
        self
    }

    /// Its heads.
    pub(crate) fn head(&self) -> &[String] {
        &self.head
    }

    /// Cells, row by row.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &[String]> {
        self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells.as_slice()),
            Row::Note(_) => None,
        })
    }

    /// Lines between rows.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(|row| match row {
            Row::Cells(_) => None,
            Row::Note(line) => Some(line.as_str()),
        })
    }

    /// For people: ends with a newline, has no blanks at line ends.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let widths = self.widths();
        for line in &self.title {
            writeln!(out, "{}", format!("# {line}").trim_end())?;
        }
        let lines = self.head.iter().map(|cell| cell.lines().count()).max().unwrap_or(0);
        for line in 0..lines {
            // Heads of fewer lines stand at the bottom.
            let cells: Vec<&str> = self
                .head
                .iter()
                .map(|head| {
                    let missing = lines - head.lines().count();
                    line.checked_sub(missing).and_then(|i| head.lines().nth(i)).unwrap_or("")
                })
                .collect();
            writeln!(out, "{}", align("# ", &cells, &widths))?;
        }
        for row in &self.rows {
            match row {
                Row::Cells(cells) => writeln!(out, "{}", align("", cells, &widths))?,
                Row::Note(line) => writeln!(out, "{}", format!("# {line}").trim_end())?,
            }
        }
        Ok(())
    }

    /// As [`print`](Self::print) where the lines fit into so many columns, else a
    /// sentence for each row, which [`fold`] can break.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn print_within(&self, columns: usize, out: &mut impl Write) -> io::Result<()> {
        let widths = self.widths();
        if widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) <= columns {
            return self.print(out);
        }
        self.title.iter().try_for_each(|line| writeln!(out, "# {line}"))?;
        for row in &self.rows {
            match row {
                Row::Cells(cells) => writeln!(out, "{}", sentence(&self.head, cells))?,
                Row::Note(line) => writeln!(out, "# {line}")?,
            }
        }
        Ok(())
    }

    /// For machines: RFC 4180, one head line, no titles, no notes; an absent
    /// figure is empty.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn csv(&self, out: &mut impl Write) -> io::Result<()> {
        let head: Vec<String> = self.head.iter().map(|cell| cell.replace('\n', " ")).collect();
        let mut lines = vec![head.as_slice()];
        lines.extend(self.cells());
        for line in lines {
            let cells: Vec<String> = line.iter().map(|cell| quote(cell)).collect();
            writeln!(out, "{}", cells.join(","))?;
        }
        Ok(())
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        let mut widen = |column: usize, width: usize| {
            if widths.len() <= column {
                widths.resize(column + 1, 0);
            }
            widths[column] = widths[column].max(width);
        };
        for (column, head) in self.head.iter().enumerate() {
            let mark = if column == 0 { 2 } else { 0 };
            head.lines().for_each(|line| widen(column, mark + line.width()));
        }
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                cells.iter().enumerate().for_each(|(c, cell)| widen(c, cell.width()));
            }
        }
        widths
    }
}

/// A row as `name: head cell, head cell`, without what is not there.
pub(crate) fn sentence<S: AsRef<str>>(head: &[S], cells: &[String]) -> String {
    let Some((name, rest)) = cells.split_first() else { return String::new() };
    let head = head.iter().skip(1).map(|head| head.as_ref().replace('\n', " "));
    let said: Vec<String> = head
        .chain(std::iter::repeat(String::new()))
        .zip(rest)
        .filter(|(_, cell)| cell.as_str() != NONE)
        .map(|(head, cell)| format!("{head} {cell}").trim_start().to_owned())
        .collect();
    format!("{name}: {}", said.join(", "))
}

/// Columns of the terminal that stdout is, or that `COLUMNS` says; no limit
/// where it is none.
pub(crate) fn columns() -> usize {
    columns_of(libc::STDOUT_FILENO)
}

fn columns_of(stream: libc::c_int) -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    // SAFETY: all-zero is a valid winsize, which the call fills.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: a structure of ours.
    let known = unsafe { libc::ioctl(stream, libc::TIOCGWINSZ, &mut size) } == 0;
    let terminal = (known && size.ws_col > 0).then_some(usize::from(size.ws_col));
    named.filter(|&columns| columns > 0).or(terminal).map_or(usize::MAX, |columns| columns.max(20))
}

/// Words in lines of so many columns: the first, and each further one. Longer
/// words stay whole.
pub(crate) fn wrap(text: &str, first: usize, further: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut space = first;
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| !line.is_empty());
        let long = word.width();
        match line {
            Some(line) if line.width() + 1 + long <= space => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => {
                lines.push(word.to_owned());
                space = further;
            }
            None => lines = vec![word.to_owned()],
        }
    }
    lines
}

/// Breaks lines of more than so many columns between words; what follows is
/// indented, behind `#` where the line was.
pub(crate) fn fold(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let body = line.trim_start_matches(['#', ' ']);
        let mark = &line[..line.len() - body.len()];
        if line.width() <= columns {
            out += &format!("{line}\n");
            continue;
        }
        let indent = if mark.starts_with('#') { "#   ".to_owned() } else { format!("{mark}  ") };
        let space = |mark: &str| columns.saturating_sub(mark.len());
        let lines = wrap(body, space(mark), space(&indent));
        out += &format!("{mark}{}\n", lines.join(&format!("\n{indent}")));
    }
    out
}

fn align<S: AsRef<str>>(mark: &str, cells: &[S], widths: &[usize]) -> String {
    let mut line = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let cell = cell.as_ref();
        // (Formatting counts characters.)
        let blank = |wide: usize| " ".repeat(width.saturating_sub(wide));
        if column == 0 {
            line += &format!("{mark}{cell}{}", blank(mark.len() + cell.width()));
        } else {
            line += &format!("  {}{cell}", blank(cell.width()));
        }
    }
    line.truncate(line.trim_end().len());
    line
}

fn quote(cell: &str) -> String {
    if cell == NONE { String::new() } else { quoted(cell).into_owned() }
}

/// Text of others for people: what ends a line, what a terminal obeys and what changes how the rest
/// is read is escaped. (Backslashes stay, so that twice is once.)
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => out.push(c),
            // Behind a letter, which an accent may be over.
            c => out.extend(['a', c].iter().collect::<String>().escape_debug().skip(1)),
        }
    }
    out.into()
}

/// A field of RFC 4180.
pub(crate) fn quoted(cell: &str) -> Cow<'_, str> {
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\"")).into()
    } else {
        cell.into()
    }
}

/// Writes what a command has to say to stdout. A reader that has gone away
/// (`rankway info | head`) has seen enough: no error.
pub(crate) fn emit(text: &[u8]) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot write: {e}")),
        _ => Ok(()),
    }
}

/// Emits a report: as `--json` has it, or as `print` writes it.
pub(crate) fn report(
    report: &impl serde::Serialize,
    as_json: bool,
    print: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<(), String> {
    if as_json {
        return emit(&json(report)?);
    }
    self::print(print)
}

/// Emits what `print` writes.
pub(crate) fn print(print: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<(), String> {
    let mut out = Vec::new();
    print(&mut out).map_err(text)?;
    emit(&out)
}

/// Says which charts were drawn.
pub(crate) fn charts<'a>(
    out: &mut Vec<u8>,
    drawn: impl IntoIterator<Item = &'a PathBuf>,
) -> io::Result<()> {
    drawn.into_iter().try_for_each(|path| writeln!(out, "# chart: {}", path.display()))
}

/// A report as `--json` writes it.
pub(crate) fn json(report: &impl serde::Serialize) -> Result<Vec<u8>, String> {
    let mut out = serde_json::to_vec_pretty(report).map_err(text)?;
    out.push(b'\n');
    Ok(out)
}

/// A report as `--json` has it.
pub(crate) fn value(report: &impl serde::Serialize) -> Result<serde_json::Value, String> {
    serde_json::to_value(report).map_err(|e| e.to_string())
}

/// Says it on standard error, where somebody reads that.
pub(crate) fn complain(said: &str) {
    let _ = io::stderr().write_all(said.as_bytes());
}

/// Says what is wrong with the arguments of a command, as clap says it; its status.
pub(crate) fn refuse_arguments(command: &str, why: &str) -> ExitCode {
    complain(&format!("error: {why}\n\nFor more information, try 'rankway {command} --help'.\n"));
    ExitCode::from(2)
}

/// A bar on stderr, shown on terminals only.
pub(crate) fn progress(len: impl Into<u64>, what: String) -> ProgressBar {
    let bar = ProgressBar::new(len.into()).with_message(what);
    bar.set_style(bar_style("{msg:44} {bar:30} {percent:>3}%", "{percent:>3}% {wide_msg}"));
    bar
}

/// How a bar looks, and where the terminal has less than 80 columns.
pub(crate) fn bar_style(wide: &str, narrow: &str) -> ProgressStyle {
    let template = if columns_of(libc::STDERR_FILENO) < 80 { narrow } else { wide };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Operations per second as millions with two decimals: `98.89`.
pub(crate) fn rate(per_second: f64) -> String {
    number(per_second / 1e6, 2)
}

/// With so many decimals; [`NONE`] for what is not a number.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { NONE.to_owned() }
}

/// What is there, or [`NONE`].
pub(crate) fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

/// A count with its thousands apart: `786,432`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of what `one` is, or `more` are: `1 window`, `2 windows`.
pub(crate) fn several(value: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { more })
}

/// `64k`, `16M`.
pub(crate) fn short(size: u32) -> String {
    match size {
        size if size.is_multiple_of(1 << 20) => format!("{}M", size >> 20),
        size if size.is_multiple_of(1 << 10) => format!("{}k", size >> 10),
        size => count(u64::from(size)),
    }
}

/// Bytes in powers of 1024 with at most two decimals: `12 B`, `6.5 KiB`,
/// `9 MiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    // At 1023.995 two decimals already read 1024.
    while scaled >= 1023.995 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let text = format!("{scaled:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {}", UNITS[unit])
}

/// An error as text, for `?` where answers are errors in words.
pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(table: &Table) -> String {
        let mut out = Vec::new();
        table.print(&mut out).expect("a Vec takes all");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["model", "paper\nM/s", "M/s"]);
        table.title("rankway rate: 2 ranks").title("");
        table.row(&["direct", "98.89", "1234567.00"]).note("own tables").row(&["lut", NONE]);
        let want = "\
# rankway rate: 2 ranks
#
#        paper
# model    M/s         M/s
direct   98.89  1234567.00
# own tables
lut          -
";
        assert_eq!(printed(&table), want, "\n{}", printed(&table));
    }

    /// Names that programs gave.
    #[test]
    fn names_stay_in_their_cells() {
        let names =
            ["new\nline", "\u{1b}[31m\u{7}\r", "\u{202e}x", "it's \"\\\"", "e\u{301}", "中文"];
        let mut table = Table::new(&["name", "n"]);
        table.title("of\u{200b}\n").note("a\tb");
        names.iter().for_each(|name| {
            table.row(&[*name, "1"]);
        });
        let want = "\
# of\\u{200b}\\n
# name             n
# a\\tb
new\\nline          1
\\u{1b}[31m\\u{7}\\r  1
\\u{202e}x          1
it's \"\\\"           1
e\u{301}                  1
中文               1
";
        assert_eq!(printed(&table), want, "\n{}", printed(&table));
        assert_eq!(shown(&shown("\u{7}\n")), shown("\u{7}\n"));
        assert_eq!((several(1, "a", "b"), several(0, "a", "b")), ("1 a".into(), "0 b".into()));
    }

    #[test]
    fn narrow_terminals() {
        let mut table = Table::new(&["provider", "longest\nmessage", "most\npeers"]);
        table.title("Providers").row(&["tcp", "any", NONE]).row(&["shm", "9 KiB", "256"]);
        let print = |columns| {
            let mut out = Vec::new();
            table.print_within(columns, &mut out).expect("a Vec takes all");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(print(80), printed(&table));
        let narrow =
            "# Providers\ntcp: longest message any\nshm: longest message 9 KiB, most peers 256\n";
        assert_eq!(print(20), narrow);
        let folded = "shm: longest message\n  9 KiB, most peers\n  256\n";
        assert!(fold(narrow, 20).ends_with(folded), "{}", fold(narrow, 20));
        assert_eq!(
            fold("# one two three\n    word other\n", 10),
            "# one two\n#   three\n    word\n      other\n"
        );
        assert_eq!(
            fold("short\n\nalonewordthatdoesnotfit x\n", 10),
            "short\n\nalonewordthatdoesnotfit\n  x\n"
        );
    }

    #[test]
    fn csv_quotes() {
        let mut table = Table::new(&["a", "b\nM/s"]);
        table.title("not in it").row(&["x,y", "say \"hi\""]).note("nor this").row(&["z", NONE]);
        let mut out = Vec::new();
        table.csv(&mut out).expect("a Vec takes all");
        assert_eq!(String::from_utf8_lossy(&out), "a,b M/s\n\"x,y\",\"say \"\"hi\"\"\"\nz,\n");
    }

    #[test]
    fn empty_tables() {
        assert_eq!(printed(&Table::new::<&str>(&[])), "");
        assert_eq!(printed(&Table::new(&["only"])), "# only\n");
    }

    #[test]
    fn formats() {
        assert_eq!(rate(98_890_000.0), "98.89");
        assert_eq!(rate(f64::NAN), NONE);
        assert_eq!(number(2.0, 0), "2");
        assert_eq!((maybe(Some(21)), maybe(None::<u32>)), ("21".into(), NONE.into()));
        assert_eq!(
            [0, 7, 999, 1000, 786_432, u64::MAX].map(count),
            ["0", "7", "999", "1,000", "786,432", "18,446,744,073,709,551,615"]
        );
        assert_eq!(
            [0, 12, 1023, 1024, 6656, 9 << 20, 1_048_572, u64::MAX].map(bytes),
            ["0 B", "12 B", "1023 B", "1 KiB", "6.5 KiB", "9 MiB", "1 MiB", "16384 PiB"]
        );
    }
}

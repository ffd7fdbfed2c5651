//! Ranks as people and files name them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// The lpids of a communicator's ranks, checked as they come.
#[derive(Debug)]
struct Ranks {
    universe: u32,
    lpids: Vec<u32>,
    /// A bit for each lpid that is there.
    seen: Vec<u64>,
}

/// `5`, `8-15`, `40-20:4`: (from, to, step), both ends included.
fn parse(word: &str) -> Option<(u32, u32, u32)> {
    let (range, step) = match word.split_once(':') {
        Some((range, step)) => (range, Some(step)),
        None => (word, None),
    };
    match range.split_once('-') {
        Some((from, to)) => {
            Some((from.parse().ok()?, to.parse().ok()?, step.map_or(Some(1), |s| s.parse().ok())?))
        }
        None if step.is_none() => range.parse().ok().map(|one| (one, one, 1)),
        None => None,
    }
}

impl Ranks {
    fn new(universe: u32) -> Ranks {
        Ranks { universe, lpids: Vec::new(), seen: Vec::new() }
    }

    /// All the words of a text, apart by commas or blanks.
    fn text(&mut self, text: &str) -> Result<(), String> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        words.filter(|word| !word.is_empty()).try_for_each(|word| self.word(word))
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        let (from, to, step) = parse(word).filter(|&(_, _, step)| step > 0).ok_or_else(|| {
            format!(
                "'{}' is neither a rank nor a range; write 5, 8-15, 20-40:4 or 15-8",
                word.chars().take(40).collect::<String>().escape_debug()
            )
        })?;
        // Checked before anything is written out.
        let most = from.max(to);
        if most >= self.universe {
            let universe = self.universe;
            let remedy = match i32::try_from(u64::from(most) + 1) {
                Ok(more) => format!("give --universe {more} or more"),
                Err(_) => format!("no universe has more than {} processes", i32::MAX),
            };
            return Err(format!("rank {most} is not in the universe of {universe}; {remedy}"));
        }
        for k in 0..=from.abs_diff(to) / step {
            self.rank(if from <= to { from + k * step } else { from - k * step })?;
        }
        Ok(())
    }

    fn rank(&mut self, lpid: u32) -> Result<(), String> {
        let (word, bit) = ((lpid / 64) as usize, 1u64 << (lpid % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            let first = self.lpids.iter().position(|&one| one == lpid).unwrap_or(0);
            let again = self.lpids.len();
            return Err(format!(
                "{lpid} is there twice, as rank {first} and as rank {again}; leave one out"
            ));
        }
        self.seen[word] |= bit;
        self.lpids.push(lpid);
        Ok(())
    }

    fn finish(self) -> Result<Vec<u32>, String> {
        if self.lpids.is_empty() {
            return Err("there are no ranks in it; write at least one".into());
        }
        Ok(self.lpids)
    }
}

/// The ranks of an option.
pub(super) fn list(text: &str, universe: u32) -> Result<Vec<u32>, String> {
    let mut ranks = Ranks::new(universe);
    ranks.text(text)?;
    ranks.finish()
}

/// The ranks of a file, or of stdin for `-`; what follows `#` in a line is
/// left out.
pub(super) fn file(path: &Path, universe: u32) -> Result<Vec<u32>, String> {
    if path == Path::new("-") {
        return lines("stdin", io::stdin().lock(), universe);
    }
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| format!("cannot read {name}: {e}"))?;
    lines(&name, BufReader::new(file), universe)
}

fn lines(name: &str, mut from: impl BufRead, universe: u32) -> Result<Vec<u32>, String> {
    let mut ranks = Ranks::new(universe);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let read = from.read_until(b'\n', &mut line);
        if read.map_err(|e| format!("cannot read {name}: {e}"))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.split('#').next().unwrap_or_default();
        ranks.text(text).map_err(|why| format!("{name}, line {number}: {why}"))?;
    }
    ranks.finish().map_err(|why| format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_steps() {
        let all = list("0, 4,8-11,20-29:4 33-30", 100).expect("good");
        assert_eq!(all, [0, 4, 8, 9, 10, 11, 20, 24, 28, 33, 32, 31, 30]);
        assert_eq!(list("7-0:7", 8).expect("good"), [7, 0]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("", "no ranks"),
            ("7,x", "'x' is neither"),
            ("1-", "'1-' is neither"),
            ("-3", "'-3' is neither"),
            ("1-5:0", "'1-5:0' is neither"),
            ("1-2-3", "neither"),
            ("4:2", "neither"),
            ("99999999999", "neither"),
            ("5,100", "rank 100 is not in the universe of 100; give --universe 101"),
            ("0-4294967295", "no universe has more than 2147483647 processes"),
            ("3,9,1-4", "3 is there twice, as rank 0 and as rank 4"),
        ];
        for (text, hint) in cases {
            let why = list(text, 100).expect_err(text);
            assert!(why.contains(hint), "{text}: {why}");
        }
    }

    #[test]
    fn lines_are_counted() {
        let read = |text: &[u8]| lines("f", text, 50);
        assert_eq!(read(b"# head\n1 2\n\n5-7\t9 # rest\r\n").expect("good"), [1, 2, 5, 6, 7, 9]);
        for (text, hint) in [
            (&b"1\n2\nthree\n"[..], "f, line 3: 'three'"),
            (b"1\n\n1\n", "f, line 3: 1 is there twice"),
            (b"1 60", "f, line 1: rank 60"),
            (b"\xff\xfe\n", "f, line 1:"),
            (b"# nothing\n", "f: there are no ranks"),
        ] {
            let why = read(text).expect_err("wrong");
            assert!(why.contains(hint), "{why}");
        }
    }
}

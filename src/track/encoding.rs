//! A [`Partial`] as bytes: a magic number, then counts and numbers of as many bytes as they
//! need (LEB128, of differences where they are small).
//!
//! ```text
//! jobs     count; number 8, size, runs
//! texts    count; length, bytes
//! objects  count; identity 8, constructor 1, flags 1, family and which options are there 1,
//!          sizes 2, parent 8 if it has one, made, made last - made, freed, time if any were,
//!          counter, job's place and rank of the lead, site, name: job's place, rank, text;
//!          runs of both groups
//! runs     count; for each: job's place, id, rank behind the last's, world rank, members,
//!          step and stride where there are several
//! ```

use super::definition::{Constructor, DefinitionFlags, Identity};
use super::partial::{Entry, JobSeen, Member, Partial, key};
use super::reader::Damage;
use super::runs::{Order, Run, Runs};
use crate::rankmap::LPID_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"RWUNIFY\x01";

const FAMILY: u8 = 1;
const PARENT: u8 = 2;
const COUNTER: u8 = 4;
const SITE: u8 = 8;
const NAME: u8 = 16;

struct Out<'a> {
    bytes: Vec<u8>,
    jobs: &'a [JobSeen],
}

impl Out<'_> {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Small where it is near 0, of both signs.
    fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    fn job(&mut self, number: u64) {
        let at = self.jobs.binary_search_by_key(&number, |job| job.number);
        self.number(at.unwrap_or(0) as u64);
    }

    fn runs(&mut self, runs: &Runs) {
        let (mut rank, mut world) = (0, 0);
        self.number(runs.as_slice().len() as u64);
        for run in runs.as_slice() {
            self.job(run.job);
            self.number(run.id.into());
            self.signed(i64::from(run.local) - rank);
            self.signed(i64::from(run.world) - world);
            self.number(run.count.into());
            if run.count > 1 {
                self.number(run.step.into());
                self.signed(run.stride.into());
            }
            rank = i64::from(run.local_at(run.count - 1)) + 1;
            world = i64::from(run.world_at(run.count - 1)) + 1;
        }
    }
}

fn write<'a>(partial: &'a Partial) -> Vec<u8> {
    let mut out = Out { bytes: MAGIC.to_vec(), jobs: &partial.jobs };
    out.number(partial.jobs.len() as u64);
    for job in &partial.jobs {
        out.word(job.number);
    }
    for job in &partial.jobs {
        out.number(job.size.into());
        out.runs(&job.present);
    }
    let said = |entry: &'a Entry| {
        let said = [&entry.site, &entry.name];
        said.into_iter().flatten().map(|(_, text)| text)
    };
    let mut texts: BTreeMap<&Arc<str>, u64> =
        partial.entries.iter().flat_map(said).map(|text| (text, 0)).collect();
    out.number(texts.len() as u64);
    for (number, (text, place)) in (0..).zip(&mut texts) {
        *place = number;
        out.number(text.len() as u64);
        out.bytes.extend_from_slice(text.as_bytes());
    }
    out.number(partial.entries.len() as u64);
    for entry in &partial.entries {
        let mut has = 0;
        has |= if entry.family { FAMILY } else { 0 };
        has |= if entry.parent != 0 { PARENT } else { 0 };
        has |= if entry.counter.is_some() { COUNTER } else { 0 };
        has |= if entry.site.is_some() { SITE } else { 0 };
        has |= if entry.name.is_some() { NAME } else { 0 };
        out.word(entry.identity.0);
        out.bytes.extend([entry.constructor as u8, entry.flags.0, has]);
        entry.sizes.iter().for_each(|&size| out.number(size.into()));
        if entry.parent != 0 {
            out.word(entry.parent);
        }
        out.number(entry.made.0);
        out.number(entry.made.1 - entry.made.0);
        out.number(entry.freed.0.into());
        if entry.freed.0 > 0 {
            out.number(entry.freed.1);
        }
        if let Some(counter) = entry.counter {
            out.number(counter.into());
        }
        out.job(entry.lead.0);
        out.number(entry.lead.1.into());
        for (member, text) in [&entry.site, &entry.name].into_iter().flatten() {
            out.job(member.0);
            out.number(member.1.into());
            out.number(texts.get(text).copied().unwrap_or(0));
        }
        entry.runs.iter().for_each(|runs| out.runs(runs));
    }
    out.bytes
}

/// Bytes from the front; `None` past their end, or where they say what cannot be.
struct In<'a> {
    bytes: &'a [u8],
    jobs: Vec<u64>,
}

impl<'a> In<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            (bits << shift >> shift == bits).then_some(())?;
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn half(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// How many follow, each of so many bytes at least.
    fn count(&mut self, least: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count.checked_mul(least)? <= self.bytes.len()).then_some(count)
    }

    fn job(&mut self) -> Option<u64> {
        let at = usize::try_from(self.number()?).ok()?;
        self.jobs.get(at).copied()
    }

    fn member(&mut self) -> Option<Member> {
        Some((self.job()?, self.half()?))
    }

    fn runs(&mut self, order: Order) -> Option<Runs> {
        let (mut rank, mut world) = (0i64, 0i64);
        let ranks = 0..=i64::from(LPID_MAX);
        let mut runs = Vec::new();
        for _ in 0..self.count(5)? {
            let (job, id) = (self.job()?, self.half()?);
            let local = rank.checked_add(self.signed()?)?;
            let first = world.checked_add(self.signed()?)?;
            let count = self.half()?;
            (count > 0 && ranks.contains(&local) && ranks.contains(&first)).then_some(())?;
            let (step, stride) = match count {
                1 => (1, 0),
                _ => (self.half()?, i32::try_from(self.signed()?).ok()?),
            };
            (step == 1 || order == Order::Scattered && step > 0).then_some(())?;
            let steps = i64::from(count - 1);
            let last_rank = local.checked_add(steps.checked_mul(step.into())?)?;
            let last_world = first.checked_add(steps.checked_mul(stride.into())?)?;
            (ranks.contains(&last_rank) && ranks.contains(&last_world)).then_some(())?;
            // Of what each process has for itself ranks are those of the world.
            let own = order == Order::Scattered;
            let same = local == first && (count == 1 || i64::from(step) == i64::from(stride));
            (!own || same).then_some(())?;
            let (local, first) = (local as u32, first as u32);
            runs.push(Run { job, local, world: first, id, count, step, stride });
            (rank, world) = (last_rank + 1, last_world + 1);
        }
        Some(Runs::of(runs, order))
    }

    fn partial(&mut self) -> Option<Partial> {
        (self.word()? == u64::from_le_bytes(MAGIC)).then_some(())?;
        for _ in 0..self.count(10)? {
            let number = self.word()?;
            self.jobs.last().is_none_or(|last| *last < number).then_some(())?;
            self.jobs.push(number);
        }
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for at in 0..self.jobs.len() {
            let (number, size) = (self.jobs[at], self.half()?);
            jobs.push(JobSeen { number, size, present: self.runs(Order::Scattered)? });
        }
        let mut texts: Vec<Arc<str>> = Vec::new();
        for _ in 0..self.count(1)? {
            let len = self.count(1)?;
            let (text, rest) = self.bytes.split_at_checked(len)?;
            self.bytes = rest;
            texts.push(str::from_utf8(text).ok()?.into());
        }
        let count = self.count(20)?;
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..count {
            let entry = self.entry(&texts)?;
            entries.last().is_none_or(|last| key(last) < key(&entry)).then_some(())?;
            entries.push(entry);
        }
        self.bytes.is_empty().then_some(Partial { jobs, entries })
    }

    fn entry(&mut self, texts: &[Arc<str>]) -> Option<Entry> {
        let identity = Identity(self.word()?);
        let constructor = Constructor::of_number(self.byte()?)?;
        let flags = DefinitionFlags(self.byte()?);
        let has = self.byte()?;
        let sizes = [self.half()?, self.half()?];
        let parent = if has & PARENT != 0 { self.word()? } else { 0 };
        let made = self.number()?;
        let made = (made, made.checked_add(self.number()?)?);
        let freed = self.half()?;
        let freed = (freed, if freed > 0 { self.number()? } else { 0 });
        let counter = if has & COUNTER != 0 { Some(self.half()?) } else { None };
        let lead = self.member()?;
        let mut text = |bit| -> Option<Option<(Member, Arc<str>)>> {
            if has & bit == 0 {
                return Some(None);
            }
            let member = self.member()?;
            Some(Some((member, texts.get(usize::try_from(self.number()?).ok()?)?.clone())))
        };
        let (site, name) = (text(SITE)?, text(NAME)?);
        let family = has & FAMILY != 0;
        let order = if family { Order::Scattered } else { Order::Ranks };
        let runs = [self.runs(order)?, self.runs(order)?];
        // Members have ranks in their group.
        let inside = |(runs, size): (&Runs, u32)| {
            let last = |run: &Run| run.local_at(run.count - 1);
            family || runs.as_slice().iter().all(|run| last(run) < size)
        };
        runs.iter().zip(sizes).all(inside).then_some(())?;
        Some(Entry {
            identity,
            constructor,
            flags,
            family,
            sizes,
            parent,
            made,
            freed,
            counter,
            lead,
            site,
            name,
            runs,
        })
    }
}

impl Partial {
    /// As it goes to another process, or into a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        write(self)
    }

    /// What [`Partial::to_bytes`] made.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Partial, Damage> {
        let mut from = In { bytes, jobs: Vec::new() };
        from.partial().ok_or_else(|| Damage::Definitions(bytes.len() - from.bytes.len()))
    }
}

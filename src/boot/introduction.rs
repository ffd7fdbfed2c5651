//! What a process tells those of other jobs about itself, where no launcher's store is
//! between them: who it is, and its raw addresses.

use super::{ContactInfo, Jobs, ProcessId, contact_info, os};
use std::collections::BTreeMap;
use std::ops::Range;

/// The key under which raw addresses are published for processes of other jobs.
pub const ADDRESSES_KEY: &str = "rankway.addresses.dynamic";
const VERSION: u8 = 2;
/// How a process is sent: as [`ProcessId::encode`] does, as [`ProcessId::encode_brief`].
const WHOLE: u8 = 1;
const BRIEF: u8 = 2;
/// Set in the names of processes of other jobs in packets.
const OTHER_JOB: u32 = 1 << 31;

/// Who a process is, for processes of other jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// [`Boot::job`](super::Boot::job) of its job.
    pub job: u64,
    /// Ranks there; not 0.
    pub size: u32,
    /// Its rank there.
    pub rank: u32,
    /// To see it end, where that is told.
    pub process: Option<ProcessId>,
    /// What it would publish under [`ADDRESSES_KEY`].
    pub addresses: Vec<u8>,
}

impl Introduction {
    /// Version, job, size, rank, in which form a process follows and which, bytes of the addresses,
    /// these.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_as(WHOLE, |process| process.encode().to_vec())
    }

    /// The same for where there is little space: processes of other machines are not told which
    /// process it is.
    pub fn encode_brief(&self) -> Vec<u8> {
        self.encode_as(BRIEF, |process| process.encode_brief().to_vec())
    }

    fn encode_as(&self, form: u8, process: impl Fn(&ProcessId) -> Vec<u8>) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend(self.job.to_le_bytes());
        out.extend(self.size.to_le_bytes());
        out.extend(self.rank.to_le_bytes());
        out.push(self.process.map_or(0, |_| form));
        out.extend(self.process.iter().flat_map(process));
        out.extend((self.addresses.len() as u32).to_le_bytes());
        out.extend(&self.addresses);
        out
    }

    /// Reads what [`encode`](Introduction::encode) or
    /// [`encode_brief`](Introduction::encode_brief) wrote; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Introduction> {
        let mut rest = bytes;
        if contact_info::take::<1>(&mut rest)? != [VERSION] {
            return None;
        }
        let job = u64::from_le_bytes(contact_info::take(&mut rest)?);
        let size = u32::from_le_bytes(contact_info::take(&mut rest)?);
        let rank = u32::from_le_bytes(contact_info::take(&mut rest)?);
        let process = match contact_info::take::<1>(&mut rest)? {
            [0] => None,
            [WHOLE] => Some(ProcessId::decode(&contact_info::take(&mut rest)?)),
            [BRIEF] => {
                let brief = contact_info::take(&mut rest)?;
                ProcessId::decode_brief(&brief, &ProcessId::current())
            }
            _ => return None,
        };
        let len = u32::from_le_bytes(contact_info::take(&mut rest)?);
        let introduction = Introduction { job, size, rank, process, addresses: rest.to_vec() };
        let whole = rest.len() == len as usize;
        (whole && rank < size && size < OTHER_JOB).then_some(introduction)
    }
}

/// What the processes of a job are called in packets to those of other jobs: `size` names
/// from this on, by rank. As many bits as ranks leave tell jobs apart.
fn first_name(job: u64, size: u32) -> u32 {
    let bits = u32::BITS - (size - 1).leading_zeros();
    let told_apart = os::fnv1a(&job.to_le_bytes()) as u32;
    OTHER_JOB | (told_apart.checked_shl(bits).unwrap_or(0) & (OTHER_JOB - 1))
}

/// Why a process of another job cannot be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// No introduction.
    Garbage,
    /// More processes than numbers are left.
    TooMany(u32),
    /// Packets could not tell two jobs apart.
    SameName,
}

impl std::error::Error for Unmet {}

impl std::fmt::Display for Unmet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unmet::Garbage => write!(f, "what was given as a process of another job is none"),
            Unmet::TooMany(size) => write!(
                f,
                "a job of {size} processes has more than there are numbers left for; disconnect \
                 from others first"
            ),
            Unmet::SameName => write!(
                f,
                "packets could not tell two jobs apart that this process speaks to; start one of \
                 them anew"
            ),
        }
    }
}

/// The processes of other jobs that a process was told of.
#[derive(Debug)]
pub struct Introductions {
    job: u64,
    size: u32,
    jobs: Jobs,
    /// By number.
    known: BTreeMap<u32, Introduction>,
}

impl Introductions {
    /// None so far; processes of jobs other than this one get numbers out of `numbers`.
    pub fn new(job: u64, size: u32, numbers: Range<u32>) -> Introductions {
        Introductions { job, size, jobs: Jobs::new(numbers), known: BTreeMap::new() }
    }

    /// Returns true if no job was met, or all are forgotten.
    pub fn is_empty(&self) -> bool {
        self.jobs.met().next().is_none()
    }

    /// What a rank of this job is called in packets to processes of others.
    pub fn name(&self, rank: u32) -> u32 {
        first_name(self.job, self.size) + rank
    }

    /// The number of the process that calls itself so in packets, if it was met.
    pub fn resolve_name(&self, name: u32) -> Option<u32> {
        let mut met = self.jobs.met();
        met.find_map(|(id, size)| {
            let rank = name.wrapping_sub(first_name(id, size));
            if rank < size { self.jobs.number(id, rank) } else { None }
        })
    }

    /// The number of the process that introduces itself so: its rank, if it is of this
    /// job; else what it gets now, or has. Says more of one that is known, or the same.
    ///
    /// # Errors
    /// [`Unmet`].
    pub fn meet(&mut self, introduction: &[u8]) -> Result<u32, Unmet> {
        let mut told = Introduction::decode(introduction).ok_or(Unmet::Garbage)?;
        let (job, size, rank) = (told.job, told.size, told.rank);
        if job == self.job {
            return if size == self.size { Ok(rank) } else { Err(Unmet::Garbage) };
        }
        if !self.jobs.knows(job) {
            let names = |id, size| (first_name(id, size), first_name(id, size) + (size - 1));
            let (first, last) = names(job, size);
            let apart = |(a, b)| last < a || b < first;
            if !self.jobs.met().all(|(id, size)| apart(names(id, size))) {
                return Err(Unmet::SameName);
            }
            self.jobs.meet(job, size).ok_or(Unmet::TooMany(size))?;
        }
        let number = self.jobs.number(job, rank).ok_or(Unmet::Garbage)?;
        if let Some(known) = self.known.get(&number) {
            told.process = told.process.or(known.process);
        }
        self.known.insert(number, told);
        Ok(number)
    }

    /// What the process with a number has told of itself.
    pub fn of(&self, number: u32) -> Option<&Introduction> {
        self.known.get(&number)
    }

    /// The value that the process with a number published, as [`Boot::get`](super::Boot::get)
    /// gives it: its addresses, and who it is.
    pub fn get(&self, number: u32, key: &str) -> Option<Vec<u8>> {
        let known = self.known.get(&number)?;
        match key {
            ADDRESSES_KEY => Some(known.addresses.clone()),
            contact_info::KEY => Some(ContactInfo::of_silent(known.process?).encode()),
            _ => None,
        }
    }

    /// The job of a process with a number.
    pub fn job_of(&self, number: u32) -> Option<u64> {
        Some(self.jobs.process(number)?.0)
    }

    /// The numbers of a job's processes; none of one that was not met.
    pub fn numbers(&self, job: u64) -> Range<u32> {
        self.jobs.numbers(job)
    }

    /// Another communicator has members in a job that was met.
    pub fn hold(&mut self, job: u64) {
        self.jobs.hold(job);
    }

    /// A communicator that had is gone.
    pub fn release(&mut self, job: u64) {
        self.jobs.release(job);
    }

    /// The jobs in which no communicator has members any more, and their processes' numbers.
    pub fn idle(&self) -> Vec<(u64, Range<u32>)> {
        self.jobs.idle()
    }

    /// Gives a job's numbers back. Nobody may use them for its processes any more.
    pub fn forget(&mut self, job: u64) {
        self.jobs.forget(job);
        let jobs = &self.jobs;
        self.known.retain(|&number, _| jobs.process(number).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(job: u64, size: u32, rank: u32) -> Introduction {
        let process = Some(ProcessId::current());
        Introduction { job, size, rank, process, addresses: vec![job as u8, rank as u8] }
    }

    proptest! {
        #[test]
        fn comes_back_whole(job: u64, size in 1_u32..1 << 31, at: u32, addresses: Vec<u8>) {
            let told = Introduction { addresses, ..of(job, size, at % size) };
            prop_assert_eq!(Introduction::decode(&told.encode()), Some(told.clone()));
            prop_assert_eq!(Introduction::decode(&told.encode_brief()), Some(told.clone()));
            let other = ProcessId { machine: [1; 16], ..ProcessId::current() };
            let far = Introduction { process: Some(other), ..told.clone() };
            let brief = Introduction { process: None, ..told };
            prop_assert_eq!(Introduction::decode(&far.encode_brief()), Some(brief.clone()));
            prop_assert_eq!(Introduction::decode(&brief.encode()), Some(brief));
        }

        #[test]
        fn garbage_is_refused_or_read_whole(bytes: Vec<u8>) {
            if let Some(told) = Introduction::decode(&bytes)
                && bytes[17] != BRIEF
            {
                prop_assert_eq!(told.encode(), bytes);
            }
        }

        #[test]
        fn names_are_told_apart_and_resolve(
            jobs in prop::collection::btree_map(2_u64.., 1_u32..5000, 1..12),
        ) {
            let mut met = Introductions::new(1, 4, 4..1 << 20);
            let mut owners = BTreeMap::new();
            for (&job, &size) in &jobs {
                let there = Introductions::new(job, size, size..size);
                let ranks = [0, size / 2, size - 1];
                for (rank, number) in ranks.iter().filter_map(|&rank| {
                    // Two jobs of one name are refused.
                    Some((rank, met.meet(&of(job, size, rank).encode()).ok()?))
                }) {
                    let before = owners.insert(there.name(rank), number);
                    prop_assert!(before.is_none_or(|before| before == number));
                }
            }
            for (name, number) in owners {
                prop_assert!(name >= 1 << 31);
                prop_assert_eq!(met.resolve_name(name), Some(number));
            }
        }
    }

    #[test]
    fn jobs_are_met_told_more_of_and_forgotten() {
        let mut met = Introductions::new(1, 4, 4..30);
        assert_eq!(met.meet(&of(1, 4, 3).encode()), Ok(3), "a member");
        assert_eq!(met.meet(&of(1, 5, 4).encode()), Err(Unmet::Garbage));
        let third = of(9, 20, 2);
        let brief = Introduction { process: None, ..third.clone() }.encode();
        assert_eq!(met.meet(&brief), Ok(6));
        assert_eq!(met.get(6, ADDRESSES_KEY), Some(vec![9, 2]));
        assert_eq!(met.get(6, contact_info::KEY), None, "it has not said");
        assert_eq!(met.meet(&third.encode()), Ok(6));
        assert_eq!(met.meet(&brief), Ok(6), "what is known stays");
        let info = ContactInfo::decode(&met.get(6, contact_info::KEY).unwrap()).unwrap();
        assert_eq!((info.process, info.port), (ProcessId::current(), 0));
        assert_eq!(met.get(7, ADDRESSES_KEY), None, "not heard of");
        assert_eq!(met.meet(&of(10, 7, 0).encode()), Err(Unmet::TooMany(7)));
        assert_eq!(met.meet(&of(9, 21, 20).encode()), Err(Unmet::Garbage), "of another size");
        met.forget(9);
        assert_eq!((met.get(6, ADDRESSES_KEY), met.job_of(6)), (None, None));
        assert_eq!(met.meet(&of(10, 7, 0).encode()), Ok(4));
    }
}

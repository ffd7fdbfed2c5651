use super::super::{Constructor, DefinitionFlags, Kind, NO_PARENT, ProcessTrace};
use super::*;
use std::io::Write;
use std::sync::atomic::AtomicUsize;

/// A file in memory, that takes so many bytes.
#[derive(Clone)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    most: usize,
    /// Keeps space.
    keeps: bool,
}

impl Memory {
    fn new(most: usize) -> Memory {
        Memory { bytes: Arc::default(), most, keeps: false }
    }

    fn trace(&self) -> ProcessTrace {
        ProcessTrace::from_bytes(&lock(&self.bytes)).unwrap()
    }
}

impl Write for Memory {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut bytes = lock(&self.bytes);
        let space = self.most - bytes.len();
        if space == 0 && !from.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(&from[..space.min(from.len())]);
        Ok(space.min(from.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Store for Memory {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        lock(&self.bytes).truncate(len as usize);
        Ok(())
    }

    fn keep(&mut self, bytes: std::ops::Range<u64>) -> io::Result<()> {
        match self.keeps {
            true if bytes.end > self.most as u64 => Err(io::ErrorKind::StorageFull.into()),
            true => Ok(()),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

fn recorder(memory: &Memory, ring: usize) -> Recorder {
    let how = Recording { events: true, ring };
    Recorder::over(Box::new(memory.clone()), "memory".into(), (5, 1, 4), how).unwrap()
}

fn world() -> Definition {
    Definition {
        identity: Identity::world(5),
        rank: 1,
        size: 4,
        parent: NO_PARENT,
        site: 0,
        constructor: Constructor::World,
        flags: DefinitionFlags::NONE,
    }
}

fn event(number: u64) -> Event {
    Event::new(Kind::Send, number, number + 3).with(1, 2, 0).of_bytes(number)
}

/// A directory that no other test has.
fn directory() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("rankway-recorder-{}-{count}", std::process::id()))
}

#[test]
fn what_was_recorded_is_in_the_file() {
    let dir = directory();
    let recorder = Recorder::open(&dir, 5, 1, 4, Recording::default()).unwrap();
    let id = recorder.define(world());
    assert_eq!((id, recorder.get(id), recorder.live()), (1, Some(world()), 1));
    let site = recorder.site("main.c:7");
    assert_eq!((site, recorder.site("main.c:8"), recorder.site("main.c:7")), (1, 2, 1));
    recorder.name(id, "world");
    recorder.fact("mpi", "Open MPI 4");
    let (identity, ordinal) = recorder.child(id, 0);
    assert_eq!((identity, ordinal), (Identity::world(5).child(0, 0), 0));
    assert_eq!(recorder.child(id, 0), (Identity::world(5).child(1, 0), 1));
    assert_ne!(recorder.child(77, 0), recorder.child(NO_PARENT, 0));
    recorder.record(event(9));
    thread::scope(|scope| drop(scope.spawn(|| recorder.record(event(10)))));
    recorder.freed(id);
    recorder.freed(id);
    assert_eq!((recorder.get(id), recorder.live()), (None, 0));
    assert!(matches!(
        Recorder::open(&dir, 5, 1, 4, Recording::default()),
        Err(TrackError::Exists { .. })
    ));
    let summary = recorder.close().unwrap();
    assert_eq!(recorder.close().unwrap(), summary);
    recorder.record(event(11));
    assert_eq!((summary.events, summary.dropped), (2, 0));
    assert_eq!((summary.definitions, summary.lost), (1, 0));
    assert!(summary.path.ends_with("0000000000000005-1.rwt"), "{summary:?}");
    let bytes = fs::read(&summary.path).unwrap();
    assert_eq!(bytes.len() as u64, summary.bytes);
    let trace = ProcessTrace::from_bytes(&bytes).unwrap();
    assert_eq!((trace.header.job, trace.header.rank, trace.header.size), (5, 1, 4));
    let [defined] = trace.definitions[..] else { panic!("{trace:?}") };
    assert!(defined.freed.is_some_and(|freed| freed >= defined.made));
    assert_eq!(trace.sites.values().collect::<Vec<_>>(), ["main.c:7", "main.c:8"]);
    assert_eq!((trace.names[&1].as_str(), trace.facts["mpi"].as_str()), ("world", "Open MPI 4"));
    let mut events: Vec<_> = trace.events.values().collect();
    events.sort_by_key(|events| events[0].start);
    assert_eq!(events, [&[event(9)], &[event(10)]]);
    assert!(trace.ended && trace.dropped == 0);
    fs::remove_dir_all(dir).unwrap();
}

/// All events of all threads, in their order.
#[test]
fn events_of_many_threads() {
    let count = if cfg!(miri) { 50 } else { 5_000 };
    let memory = Memory::new(usize::MAX);
    let recorder = recorder(&memory, 64);
    thread::scope(|scope| {
        let recorder = &recorder;
        let run = |thread: u64| {
            for number in 0..count {
                recorder.record(event(number << 3 | thread));
                if number % 7 == 0 {
                    recorder.flush();
                }
            }
        };
        // (Joined one by one: a scope does not wait for what threads do as they end.)
        let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || run(thread)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let summary = recorder.close().unwrap();
    assert_eq!(summary.events + summary.dropped, 4 * count);
    let trace = memory.trace();
    assert_eq!(trace.events.len(), 4);
    assert_eq!(trace.dropped, summary.dropped);
    for events in trace.events.values() {
        assert!(events.is_sorted_by(|a, b| a.start < b.start));
        assert!(events.iter().all(|event| event.start & 7 == events[0].start & 7));
        assert!(!events.is_empty());
    }
    // Rings of threads that have ended are gone.
    assert!(lock(&recorder.shared.sink).rings.is_empty());
}

/// A thread that records in two recorders by turns.
#[test]
fn recorders_are_apart() {
    let memories = [Memory::new(usize::MAX), Memory::new(usize::MAX)];
    let recorders = memories.each_ref().map(|memory| recorder(memory, 1 << 10));
    for number in 0..100 {
        recorders[number as usize % 2].record(event(number));
    }
    for (which, recorder) in recorders.iter().enumerate() {
        assert_eq!(recorder.close().unwrap().events, 50);
        let trace = memories[which].trace();
        assert!(trace.events[&1].iter().all(|event| event.start % 2 == which as u64));
    }
}

/// A ring that nobody empties drops and counts.
#[test]
fn a_full_ring_drops_and_counts() {
    let memory = Memory::new(usize::MAX);
    let recorder = recorder(&memory, 16);
    recorder.record(event(0));
    {
        // As a disk that does not answer: the one that writes stands.
        let _stands = lock(&recorder.shared.sink);
        (1..100).for_each(|number| recorder.record(event(number)));
    }
    let summary = recorder.close().unwrap();
    // (The first may have been written before.)
    assert!((16..=17).contains(&summary.events), "{summary:?}");
    assert_eq!(summary.events + summary.dropped, 100);
    assert_eq!(memory.trace().dropped, summary.dropped);
}

/// At every size at which the disk is full what stands can be read, and with what is
/// counted makes all.
#[test]
fn a_full_disk_is_counted() {
    for most in (64..4_096).step_by(if cfg!(miri) { 997 } else { 61 }) {
        let keeps = most % 2 == 0;
        let memory = Memory { keeps, ..Memory::new(most) };
        let recorder = recorder(&memory, 64);
        for number in 0..40 {
            let id = recorder.define(world());
            recorder.record(event(number));
            if number % 3 == 0 {
                recorder.flush();
            }
            if number % 2 == 0 {
                recorder.freed(id);
            }
        }
        let closed = recorder.close();
        let trace = memory.trace();
        let events: usize = trace.events.values().map(Vec::len).sum();
        match closed {
            Ok(summary) => {
                assert!(trace.ended);
                assert_eq!((summary.events, summary.dropped), (events as u64, trace.dropped));
                assert_eq!(summary.events + summary.dropped, 40);
                assert_eq!(summary.definitions as usize, trace.definitions.len());
                assert_eq!(summary.lost, trace.lost);
                let freed = trace.definitions.iter().filter(|one| one.freed.is_some()).count();
                assert_eq!(summary.definitions + freed as u64 + summary.lost, 60);
            }
            Err(why) => {
                // The end has its space where any is kept.
                assert!(!keeps || most < 192, "{most}");
                assert!(matches!(why, TrackError::Write { .. }), "{why}");
                assert!(!trace.ended && why.to_string().contains("make space"), "{why}");
            }
        }
        assert_eq!(recorder.live(), 20);
    }
}

/// Events that fill the disk leave space for what is made and freed after them.
#[test]
fn a_full_disk_keeps_definitions() {
    let most = 80 << 10;
    let memory = Memory { keeps: true, ..Memory::new(most) };
    let recorder = recorder(&memory, 1 << 10);
    let before = recorder.define(world());
    for number in 0..4_000 {
        recorder.record(event(number));
        if number % 256 == 0 {
            recorder.flush();
        }
    }
    recorder.flush();
    recorder.freed(before);
    for _ in 0..100 {
        recorder.freed(recorder.define(world()));
        recorder.flush();
    }
    let summary = recorder.close().unwrap();
    let trace = memory.trace();
    assert!(trace.ended && summary.events > 0 && trace.dropped > 1_000, "{summary:?}");
    assert_eq!((summary.definitions, trace.lost), (101, 0));
    assert!(trace.definitions.iter().all(|one| one.freed.is_some()));
}

/// On a real disk: the space that was kept is given back.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn space_that_was_kept_is_given_back() {
    use std::os::unix::fs::MetadataExt;
    let dir = directory();
    let recorder = Recorder::open(&dir, 5, 1, 4, Recording::default()).unwrap();
    recorder.define(world());
    recorder.record(event(1));
    let summary = recorder.close().unwrap();
    let told = fs::metadata(&summary.path).unwrap();
    assert_eq!(told.len(), summary.bytes);
    assert!(told.blocks() * 512 < 32 << 10, "{} blocks", told.blocks());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn errors_name_path_and_remedy() {
    let dir = directory();
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("file");
    fs::write(&file, "").unwrap();
    let refused = Recorder::open(&file, 1, 0, 1, Recording::default()).unwrap_err();
    assert!(matches!(refused, TrackError::Directory { .. }));
    let said = refused.to_string();
    assert!(said.contains("file") && said.contains("choose another directory"), "{said}");
    let refused = Recorder::open(&dir, 1, 4, 4, Recording::default()).unwrap_err();
    assert!(matches!(refused, TrackError::Rank { rank: 4, size: 4 }));
    fs::remove_dir_all(dir).unwrap();
}

/// A process that is forked off goes on as before, and writes nothing.
#[cfg(all(unix, not(miri)))]
#[test]
fn a_forked_process_does_not_write_its_parents_file() {
    let dir = directory();
    let recorder = Recorder::open(&dir, 5, 1, 4, Recording { events: true, ring: 16 }).unwrap();
    recorder.record(event(0));
    recorder.flush();
    // SAFETY: the process that is forked off uses this recorder alone, and leaves at once.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        for number in 0..3_000 {
            recorder.define(world());
            recorder.record(event(number));
        }
        recorder.flush();
        let closed = recorder.close().is_ok_and(|summary| summary.bytes == 0);
        drop(recorder);
        // SAFETY: ends this process, which nothing is left to do.
        unsafe { libc::_exit(if closed { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: the kernel writes the status it was given a place for.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status}");
    recorder.record(event(1));
    let summary = recorder.close().unwrap();
    assert_eq!((summary.events, summary.definitions), (2, 0));
    let trace = ProcessTrace::from_bytes(&fs::read(&summary.path).unwrap()).unwrap();
    assert_eq!(trace.events[&1], [event(0), event(1)]);
    fs::remove_dir_all(dir).unwrap();
}

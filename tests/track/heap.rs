//! What a process keeps of communicators: 24 bytes at most of each that is live, its index
//! among them, nothing of those that were freed.
#![allow(clippy::unwrap_used)]

use rankway::track::{
    Constructor, Definition, DefinitionFlags, Identity, ProcessTrace, Recorder, Recording,
};
use rankway_cli::observe::memory::Counting;

#[global_allocator]
static HEAP: Counting = Counting::new();

fn definition(recorder: &Recorder, parent: u32) -> Definition {
    let (identity, ordinal) = recorder.child(parent, 0);
    Definition {
        identity,
        rank: ordinal % 7,
        size: 1 << 20,
        parent,
        site: recorder.site("program.c:17"),
        constructor: Constructor::Dup,
        flags: DefinitionFlags::NONE,
    }
}

/// One test: the counters are the process's.
#[test]
fn memory_is_flat() {
    let dir = std::env::temp_dir().join(format!("rankway-heap-{}", std::process::id()));
    let how = Recording { events: true, ring: 1 << 10 };
    let recorder = Recorder::open(&dir, 9, 3, 1 << 20, how).unwrap();
    let world = recorder.define(Definition {
        identity: Identity::world(9),
        constructor: Constructor::World,
        ..definition(&recorder, 0)
    });
    let one_after_another = |count| {
        for _ in 0..count {
            let id = recorder.define(definition(&recorder, world));
            assert_eq!(recorder.child(id, 1).1, 0);
            recorder.freed(id);
            assert_eq!(recorder.live(), 1);
        }
        recorder.flush();
    };
    // Buffers grow once.
    one_after_another(10_000);
    let (kept, bytes) = (HEAP.read().live, recorder.bytes());
    let ((), used) = HEAP.during(|| one_after_another(100_000));
    assert!(used.live < 1_024, "100,000 one after another leave {} bytes", used.live);
    assert!(used.peak < 512 << 10, "100,000 one after another take {} bytes", used.peak);
    assert_eq!(recorder.bytes(), bytes);

    let mut ids = Vec::with_capacity(5_000);
    let ((), used) = HEAP.during(|| {
        ids.extend((0..5_000).map(|_| recorder.define(definition(&recorder, world))));
        recorder.flush();
    });
    assert_eq!(recorder.live(), 5_001);
    let each = used.live as f64 / 5_000.0;
    assert!(each <= 24.0, "5,000 at once take {each} bytes each");
    assert!(recorder.bytes() <= 24 * 5_001, "{} bytes", recorder.bytes());
    println!("{each:.2} bytes each of 5,000 at once");
    ids.drain(..).for_each(|id| recorder.freed(id));
    drop(ids);
    recorder.flush();
    let left = HEAP.read().live.saturating_sub(kept);
    assert!(left < 4_096, "5,000 at once leave {left} bytes");

    let summary = recorder.close().unwrap();
    assert_eq!((summary.definitions, summary.lost), (115_001, 0));
    let trace = ProcessTrace::from_bytes(&std::fs::read(&summary.path).unwrap()).unwrap();
    let freed = trace.definitions.iter().filter(|defined| defined.freed.is_some()).count();
    assert_eq!((trace.definitions.len(), freed), (115_001, 115_000));
    std::fs::remove_dir_all(dir).unwrap();
}

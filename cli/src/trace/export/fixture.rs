//! A process's file for unit tests.

use rankway::track::{Chunk, Event, Header, Writer};

pub(super) const HEADER: Header = Header {
    job: 9,
    rank: 1,
    size: 4,
    pid: 77,
    ticks: 0,
    unix_nanos: 5_000_000,
    nanos_per_tick: 1.0,
};

pub(super) fn written(header: &Header, threads: &[(u32, &[Event])]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    for &(thread, events) in threads {
        let bytes: Vec<u8> = events.iter().flat_map(Event::to_bytes).collect();
        writer.add(&Chunk::Events { thread, bytes: &bytes }).unwrap();
    }
    writer.add(&Chunk::End { dropped: 0, lost: 0 }).unwrap();
    std::mem::take(writer.get_mut())
}

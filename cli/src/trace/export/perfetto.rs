//! A timeline for ui.perfetto.dev: a track for each thread below its process's, a slice for
//! each call, an arrow for each message.
//!
//! Numbers of fields are those of Perfetto's own `.proto` files: `trace_packet`,
//! `track_descriptor`, `track_event`, `debug_annotation`, `interned_data`.

use super::edges::{Edge, edges};
use super::flows::Flows;
use super::{Export, Survey, called, object_name};
use crate::target::Target;
use rankway::track::{CallClass, Constructor, Event, EventFlags, Kind, NO_PEER, ProcessTrace};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;

/// A message of protobuf as it grows (the encoding's rules: protobuf.dev, "Encoding").
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, field: u32, text: &str) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.varint(u64::from(field) << 3 | 2);
        let at = self.0.len();
        self.0.push(0);
        fill(self);
        let len = self.0.len() - at - 1;
        if len < 0x80 {
            self.0[at] = len as u8;
        } else {
            let mut long = Message::default();
            long.varint(len as u64);
            self.0.splice(at..=at, long.0);
        }
    }
}

/// Of `TrackEvent`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
/// Of `TracePacket`: what was interned before is forgotten, is needed.
const CLEARED: u64 = 1;
const NEEDED: u64 = 2;
/// All packets are of one sequence: they share what is interned.
const SEQUENCE: u64 = 1;
/// Interned names of constructors come behind those of kinds.
const CONSTRUCTORS: u64 = 256;

const ANNOTATIONS: [&str; 6] = ["communicator", "peer", "tag", "bytes", "failed", "cancelled"];
const COMMUNICATOR: u64 = 1;
const PEER: u64 = 2;
const TAG: u64 = 3;
const BYTES: u64 = 4;
const FAILED: u64 = 5;
const CANCELLED: u64 = 6;

pub(super) struct Perfetto {
    target: Target,
    file: File,
    message: Message,
    written: u64,
    records: u64,
    tracks: u64,
    /// Names of communicators that are interned, by name.
    names: HashMap<String, u64>,
}

impl Perfetto {
    pub(super) fn create(target: Target) -> Result<Perfetto, String> {
        let file = File::options().write(true).open(target.path());
        let file = file.map_err(|e| target.cannot(&e))?;
        let message = Message::default();
        let names = HashMap::new();
        let mut to = Perfetto { target, file, message, written: 0, records: 0, tracks: 0, names };
        to.packet(None, CLEARED, |packet| {
            packet.message(12, |interned| {
                let entry = |interned: &mut Message, field, iid, name: &str| {
                    interned.message(field, |entry| {
                        entry.number(1, iid);
                        entry.text(2, name);
                    });
                };
                for class in CallClass::ALL {
                    entry(interned, 1, class as u64 + 1, class.name());
                }
                for &kind in Kind::ALL {
                    entry(interned, 2, kind as u64, kind.name());
                }
                for &constructor in Constructor::ALL {
                    entry(interned, 2, CONSTRUCTORS + constructor as u64, constructor.name());
                }
                for (iid, name) in (1..).zip(ANNOTATIONS) {
                    entry(interned, 3, iid, name);
                }
            });
        })?;
        Ok(to)
    }

    fn packet(
        &mut self,
        time: Option<u64>,
        flags: u64,
        fill: impl FnOnce(&mut Message),
    ) -> Result<(), String> {
        self.message.message(1, |packet| {
            if let Some(time) = time {
                packet.number(8, time);
            }
            packet.number(10, SEQUENCE);
            packet.number(13, flags);
            fill(packet);
        });
        self.records += 1;
        if self.message.0.len() >= 1 << 20 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), String> {
        self.file.write_all(&self.message.0).map_err(|e| self.target.cannot(&e))?;
        self.written += self.message.0.len() as u64;
        self.message.0.clear();
        Ok(())
    }

    /// The interned name of an object, which is interned first where it is new.
    fn name(&mut self, name: String) -> Result<u64, String> {
        let next = self.names.len() as u64 + 1;
        if let Some(&iid) = self.names.get(&name) {
            return Ok(iid);
        }
        self.packet(None, NEEDED, |packet| {
            packet.message(12, |interned| {
                interned.message(29, |entry| {
                    entry.number(1, next);
                    entry.text(2, &name);
                });
            });
        })?;
        self.names.insert(name, next);
        Ok(next)
    }

    fn track(&mut self, fill: impl FnOnce(&mut Message)) -> Result<u64, String> {
        self.tracks += 1;
        let uuid = self.tracks;
        self.packet(None, NEEDED, |packet| {
            packet.message(60, |track| {
                track.number(1, uuid);
                fill(track);
            });
        })?;
        Ok(uuid)
    }
}

impl Export for Perfetto {
    fn process(&mut self, survey: &Survey, at: usize, trace: &ProcessTrace) -> Result<(), String> {
        let label = survey.traces.label(trace.header.job, trace.header.rank);
        let host = trace.facts.get("host").map(|host| format!(" on {host}")).unwrap_or_default();
        let name = format!("rank {label}{host}");
        // Two processes of one number would be one there.
        let number = match survey.pids_differ {
            true => trace.header.pid,
            false => at as u32 + 1,
        };
        let parent = self.track(|track| {
            track.message(3, |process| {
                process.number(1, number.into());
                process.text(6, &name);
            });
        })?;
        let mut objects = BTreeMap::new();
        for defined in &trace.definitions {
            let definition = &defined.definition;
            let name = trace.names.get(&defined.id).map(String::as_str);
            let name = object_name(name, definition.constructor, definition.identity);
            objects.insert(defined.id, self.name(name)?);
        }
        let constructors: HashMap<u32, Constructor> =
            trace.definitions.iter().map(|one| (one.id, one.definition.constructor)).collect();
        let flows = Flows::of(trace);
        for (&thread, events) in &trace.events {
            let uuid = self.track(|track| {
                track.text(2, &format!("thread {thread}"));
                track.number(5, parent);
            })?;
            edges(trace, events, |edge, time, at| {
                let event = &events[at];
                let Some(kind) = event.kind().filter(|&kind| kind != Kind::Completed) else {
                    return Ok(());
                };
                let receives = kind.class() == CallClass::Receive;
                let flow = flows.get(thread, at);
                let time = Some(time.saturating_sub(survey.begin));
                // An arrow ends where the message is there, not where it is waited for.
                if let (Edge::Leave, true, Some(flow)) = (edge, receives, flow) {
                    self.packet(time, NEEDED, |packet| {
                        packet.message(11, |into| {
                            header(into, INSTANT, uuid, Some(Kind::Received as u64), kind);
                            into.fixed64(48, flow);
                        });
                    })?;
                }
                self.packet(time, NEEDED, |packet| {
                    packet.message(11, |into| match edge {
                        Edge::Leave => header(into, END, uuid, None, kind),
                        _ => {
                            let type_ = if edge == Edge::Enter { BEGIN } else { INSTANT };
                            let name = called(kind, constructors.get(&event.comm).copied());
                            let name = name.map_or(kind as u64, |it| CONSTRUCTORS + it as u64);
                            header(into, type_, uuid, Some(name), kind);
                            details(into, event, objects.get(&event.comm).copied());
                            match flow {
                                Some(flow) if edge == Edge::Moment => into.fixed64(48, flow),
                                Some(flow) if !receives => into.fixed64(47, flow),
                                _ => (),
                            }
                        }
                    });
                })
            })?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &Survey) -> Result<(u64, u64), String> {
        self.flush()?;
        let Perfetto { target, written, records, .. } = *self;
        Ok((records, target.put()?.unwrap_or(written)))
    }
}

fn header(into: &mut Message, type_: u64, track: u64, name: Option<u64>, kind: Kind) {
    into.number(9, type_);
    into.number(11, track);
    if let Some(name) = name {
        into.number(3, kind.class() as u64 + 1);
        into.number(10, name);
    }
}

/// What the call was on, with whom, and what it moved.
fn details(into: &mut Message, event: &Event, object: Option<u64>) {
    let mut detail = |name, field, value| {
        into.message(4, |annotation| {
            annotation.number(1, name);
            annotation.number(field, value);
        });
    };
    const BOOL: u32 = 2;
    const UNSIGNED: u32 = 3;
    const SIGNED: u32 = 4;
    const INTERNED: u32 = 17;
    if let Some(object) = object {
        detail(COMMUNICATOR, INTERNED, object);
    }
    if event.peer != NO_PEER {
        detail(PEER, UNSIGNED, event.peer.into());
    }
    let class = event.kind().map(|kind| kind.class());
    if matches!(class, Some(CallClass::Send | CallClass::Receive | CallClass::Post)) {
        detail(TAG, SIGNED, i64::from(event.tag) as u64);
    }
    if event.bytes() > 0 {
        detail(BYTES, UNSIGNED, event.bytes());
    }
    if event.flags().has(EventFlags::FAILED) {
        detail(FAILED, BOOL, 1);
    }
    if event.flags().has(EventFlags::CANCELLED) {
        detail(CANCELLED, BOOL, 1);
    }
}

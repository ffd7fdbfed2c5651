//! Bytes → packets into every handler, between operations of this process: tagged
//! and active messages, requests of windows with pieces of accumulates and encoded
//! layouts, and the link's own with business cards and packets in packets. Nothing panics, and no memory
//! is used that is not the library's at the time.
//!
//! `ci/proof/fuzz.sh packets`

#![no_main]

use libfuzzer_sys::fuzz_target;
use rankway::boot::simulated::Simulated;
use rankway::datatype::{Basic, Layout};
use rankway::device::{Context, Device};
use rankway::msg::{Active, Envelope, HandlerStatus, MatchSpec, Request, Tagged};
use rankway::netmod::HEAD;
use rankway::rankmap::RankMap;
use rankway::rma::{Communicator, Window};
use rankway_fuzz::{Bytes, ScriptedNetwork};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

const RANKS: u32 = 4;

/// Requests under way, and their memory, which is freed after the context.
#[derive(Default)]
struct Requests {
    all: VecDeque<Request<ScriptedNetwork>>,
    memory: Vec<Box<[u8]>>,
}

fn length(bytes: &mut Bytes<'_>) -> usize {
    match bytes.byte() {
        n @ 0..200 => usize::from(n),
        n => usize::from(n - 200) * 100,
    }
}

/// A word: small, of something that was sent, or any.
fn word(bytes: &mut Bytes<'_>, network: &ScriptedNetwork) -> u64 {
    match bytes.byte() {
        n @ 0..128 => u64::from(n),
        n @ 128..224 => {
            let sent = network.sent(usize::from(n)).unwrap_or([0; HEAD]);
            let at = 8 + 8 * (usize::from(n) % 3);
            u64::from_le_bytes(sent[at..at + 8].try_into().unwrap())
        }
        _ => bytes.word(),
    }
}

/// What a request of a window says of its piece: id, elements (or bytes), type,
/// operation. Sometimes more than the answer has room for.
fn meta(bytes: &mut Bytes<'_>) -> (u64, usize) {
    let (count, of) = (bytes.byte(), bytes.byte());
    let count = match count {
        200.. => usize::from(count) * 12,
        _ => usize::from(count) % 40,
    };
    let id = u64::from(bytes.byte() & 3);
    (id << 32 | (count as u64) << 8 | u64::from(of), count)
}

/// Kinds of a window's requests from here on have a layout in front of the body.
const SCATTER: u8 = 11;

/// The length of an encoded layout and that, one of its words changed perhaps; the
/// bytes that the layout takes.
fn places(bytes: &mut Bytes<'_>) -> (Vec<u8>, usize) {
    let basic = if bytes.byte() & 1 == 0 { Basic::F64 } else { Basic::U8 };
    let (count, len, stride) = (bytes.byte() % 40, bytes.byte() % 9, bytes.byte() as i8);
    let (count, stride) = (u64::from(count), i64::from(stride));
    let layout = match len {
        // A list of places.
        0 => {
            let places: Vec<i64> = (0..count).map(|_| i64::from(bytes.byte()) * 8).collect();
            Layout::hindexed(&vec![1; places.len()], &places, &Layout::basic(basic))
        }
        len => Layout::hvector(count, len.into(), stride * 8, &Layout::basic(basic)),
    }
    .unwrap();
    let encoded = layout.encode();
    let mut front = [&(encoded.len() as u64).to_le_bytes()[..], &encoded].concat();
    let change = usize::from(bytes.byte());
    if change % 4 == 3 {
        let at = change / 4 * 8 % front.len();
        front[at..at + 8].copy_from_slice(&bytes.word().to_le_bytes());
    }
    (front, layout.size() as usize)
}

fn packet(
    bytes: &mut Bytes<'_>,
    network: &ScriptedNetwork,
    window: u64,
    numbers: &mut [u16; RANKS as usize],
) {
    let (class, kind) = (bytes.byte() % 6, bytes.byte() % 15);
    let from = u32::from(bytes.byte() % 5);
    let mut words = [word(bytes, network), word(bytes, network), word(bytes, network)];
    let (mut len, mut body) = (length(bytes), Vec::new());
    if class == 4 && words[2] < 128 {
        let (meta, count) = meta(bytes);
        words[2] = meta;
        words[0] = if words[0] < 120 { window } else { words[0] };
        if kind < SCATTER {
            // As long as the elements, as a pair of them, or not.
            len = match bytes.byte() % 4 {
                0 => len,
                size => count << size,
            };
        } else {
            let (front, all) = places(bytes);
            (body, words[2]) = (front, meta & !0xffff_ff00 | (all as u64) << 8);
            // As long as the layout, without operands, or not.
            len = match bytes.byte() % 4 {
                0 => len,
                1 => 0,
                _ => all,
            };
        }
    }
    let number = match numbers.get_mut(from as usize) {
        Some(next) if bytes.byte() % 16 != 1 && class != 1 => {
            *next = next.wrapping_add(1);
            next.wrapping_sub(1)
        }
        _ => u16::from(bytes.byte()),
    };
    let mut head = [0; HEAD];
    let first = u64::from(class) | u64::from(kind) << 8;
    let first = first | u64::from(number) << 16 | u64::from(from) << 32;
    for (to, word) in head.chunks_mut(8).zip([first, words[0], words[1], words[2]]) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let end = body.len() + len;
    body.extend_from_slice(bytes.take(len));
    body.resize(end, 0x3c);
    network.bring(head, body);
}

fn match_spec(bytes: &mut Bytes<'_>) -> MatchSpec {
    let (channel, bits, wild) = (bytes.byte() % 3, bytes.byte() % 4, bytes.byte());
    let ignore = if wild & 1 == 1 { u64::MAX } else { 0 };
    let from = (wild & 2 == 0).then_some(u32::from(wild >> 4) % RANKS);
    MatchSpec { channel: u64::from(channel), bits: u64::from(bits), ignore, from }
}

fn play(
    bytes: &mut Bytes<'_>,
    network: &ScriptedNetwork,
    context: &Rc<Context<ScriptedNetwork>>,
    requests: &mut Requests,
) -> Option<()> {
    let tagged = Tagged::open(context).ok()?;
    let active = Active::open(context).ok()?;
    let status =
        |bytes: usize| if bytes % 5 == 4 { HandlerStatus::Held } else { HandlerStatus::Consumed };
    let register = |id: u16| {
        active.register(id, move |call| {
            if let Some(reply) = call.reply() {
                let _ = reply.send(id + 1, call.header, call.payload);
            }
            status(call.payload.len())
        })
    };
    register(0).ok()?;
    register(1).ok()?;
    let alone = RankMap::from_lpids(0, [0]).ok()?;
    let alone = Communicator::with_id(context, alone, 0, 5);
    let mut window = Window::allocate(&alone, 4000, 1).ok()?;
    let id = window.communicator().id();
    let mut numbers = [0; RANKS as usize];
    let mut attempts = 0;
    while !bytes.is_empty() && attempts < 400 {
        attempts += 1;
        match bytes.byte() % 16 {
            0..8 => packet(bytes, network, id, &mut numbers),
            8 => {
                let spec = match_spec(bytes);
                let mut memory = vec![0; length(bytes)].into_boxed_slice();
                // SAFETY: the memory outlives the context.
                let request = unsafe { tagged.irecv(&spec, memory.as_mut_ptr(), memory.len()) };
                requests.all.extend(request.ok());
                requests.memory.push(memory);
            }
            9 | 10 => {
                let (to, channel, tag) = (bytes.byte(), bytes.byte() % 3, bytes.byte());
                let memory = vec![7; length(bytes)].into_boxed_slice();
                let (peer, channel, bits) =
                    (u32::from(to) % RANKS, channel.into(), (tag % 4).into());
                let to = Envelope { peer, channel, bits };
                let (at, len) = (memory.as_ptr(), memory.len());
                // SAFETY: as above.
                let request = unsafe {
                    match tag & 128 {
                        0 => tagged.isend(to, at, len),
                        _ => tagged.issend(to, at, len),
                    }
                };
                requests.all.extend(request.ok());
                requests.memory.push(memory);
            }
            11 => {
                let (to, len) = (u32::from(bytes.byte()) % RANKS, length(bytes).min(2000));
                let _ = match len & 1 {
                    0 => active.try_send(to, 0, &[1; 16], &vec![5; len]),
                    _ => active.try_request(to, 1, &[1; 3], &vec![5; len]),
                };
            }
            12 => {
                network.answer(bytes.take(3));
                let _ = context.progress();
            }
            13 => {
                let which = bytes.byte();
                network.end(usize::from(which >> 1), which & 1 == 0);
                let _ = context.progress();
            }
            14 => {
                if let Some(mut request) = requests.all.pop_front() {
                    let _ = (request.cancel(), request.test());
                    requests.all.extend((!request.is_complete()).then_some(request));
                }
                if let Ok(Some(message)) = tagged.improbe(&match_spec(bytes)) {
                    let mut memory = vec![0; length(bytes)].into_boxed_slice();
                    // SAFETY: as above.
                    let request = unsafe { message.irecv(memory.as_mut_ptr(), memory.len()) };
                    requests.all.push_back(request);
                    requests.memory.push(memory);
                }
            }
            _ => drop(context.progress()),
        }
    }
    for which in 0..attempts {
        let _ = context.progress();
        network.end(which, which % 3 != 0);
    }
    window.free().ok()
}

fuzz_target!(|data: &[u8]| {
    let network = ScriptedNetwork::open();
    let boot = Simulated::new(RANKS, 0, 1).unwrap();
    let context = Device::open(Arc::new(boot), Some(Arc::clone(&network)), None, false).unwrap();
    let mut requests = Requests::default();
    play(&mut Bytes::new(data), &network, &context, &mut requests);
    requests.all.clear();
    drop(context);
});

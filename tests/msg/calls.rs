//! Active messages: replies, back-pressure, mailboxes.

use super::{Opens, pattern, same};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::datatype::{Basic, Layout};
use rankway::device::{Context, DeviceError};
use rankway::msg::{Active, HandlerStatus, Mailbox, Messenger, MsgError};
use rankway::rma::{Assert, Communicator, ErrorKind, Window};
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Everybody asks everybody, itself too; all answers are checked.
pub fn replies<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const MANY: u32 = 2000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let active = Active::open(&context).map_err(text)?;
    let (me, n) = (world.rank(), world.size());
    let wrong = Rc::new(RefCell::new(None));
    let answers = Rc::new(RefCell::new(vec![0_u32; n as usize]));
    // Question: a seed in the header, bytes of that pattern.
    let notes = Rc::clone(&wrong);
    let holds = Cell::new(false);
    let asked = move |call: &mut rankway::msg::Call<'_, N>| {
        let seed = u32::from_le_bytes(call.header.try_into().unwrap_or_default());
        // Every seventh is held once, when its reply has been looked at.
        if seed % 7 == 4 && !holds.replace(!holds.get()) {
            _ = call.reply();
            return HandlerStatus::Held;
        }
        if let Err(e) = same("question", call.payload, &pattern(seed, call.payload.len())) {
            *notes.borrow_mut() = Some(e);
        }
        match call.reply() {
            // Every third has no answer.
            Some(_) if seed % 3 == 2 => {}
            Some(reply) => {
                let payload = pattern(seed + 1, (seed as usize * 13) % 5000);
                if let Err(e) = reply.send(2, call.header, &payload) {
                    *notes.borrow_mut() = Some(e.to_string());
                }
            }
            None => *notes.borrow_mut() = Some("no way back".into()),
        }
        HandlerStatus::Consumed
    };
    active.register(1, asked).map_err(text)?;
    let (notes, count) = (Rc::clone(&wrong), Rc::clone(&answers));
    let answered = move |call: &mut rankway::msg::Call<'_, N>| {
        let seed = u32::from_le_bytes(call.header.try_into().unwrap_or_default());
        let want = pattern(seed + 1, (seed as usize * 13) % 5000);
        if let Err(e) = same("answer", call.payload, &want) {
            *notes.borrow_mut() = Some(e);
        }
        if call.reply().is_some() {
            *notes.borrow_mut() = Some("a reply to a reply".into());
        }
        count.borrow_mut()[call.from as usize] += 1;
        HandlerStatus::Consumed
    };
    active.register(2, answered).map_err(text)?;
    let taken = active.register(2, |_| HandlerStatus::Consumed);
    ensure!(matches!(taken, Err(MsgError::HandlerTaken { id: 2 })), "{taken:?}");
    let long = active.send(0, 1, &[0; 17], &[]);
    ensure!(matches!(long, Err(MsgError::TooLong { .. })), "{long:?}");
    for i in 0..MANY {
        let payload = pattern(i, (i as usize * 29) % 3000);
        active.request((me + i) % n, 1, &i.to_le_bytes(), &payload).map_err(text)?;
    }
    for peer in 0..n {
        let asked = (0..MANY).filter(|i| (me + i) % n == peer);
        let wanted = asked.filter(|i| i % 3 != 2).count() as u32;
        let count = || answers.borrow()[peer as usize];
        // (One's own are answered a moment later.)
        let over = || active.owed(peer) == 0 && (peer != me || count() == wanted);
        active.wait_until(peer, over).map_err(text)?;
        ensure!(count() == wanted, "{} answers of {wanted} from {peer}", count());
    }
    world.barrier().map_err(text)?;
    let wrong = wrong.borrow_mut().take();
    wrong.map_or(Ok(()), Err)
}

/// Within a handler nothing is waited for: a send of the kind `which` is given up there, and its
/// buffer changed.
fn send_and_give_up<N: Opens>(context: &Rc<Context<N>>, layout: &Layout, which: u8) -> Result {
    let world = Communicator::world(context);
    let m = Messenger::open(&world).map_err(text)?;
    let mut out = vec![7_u8; 2 * WITHDRAWN];
    let (start, tag) = (out.as_ptr(), 3 + u32::from(which));
    // SAFETY: `out` is not written before the wait has ended.
    let request = unsafe {
        match which {
            0 => m.isend(start, WITHDRAWN, 1, tag),
            1 => m.isend_layout(start, layout, 1, tag),
            _ => m.issend(start, WITHDRAWN, 1, tag),
        }
    };
    let waited = request.map_err(text)?.wait();
    out.fill(9);
    // (What is freed may be another's, or not there.)
    std::mem::forget(out);
    let nested = matches!(waited, Err(MsgError::Device(DeviceError::Nested)));
    if nested { Ok(()) } else { Err(format!("{waited:?}")) }
}

const WITHDRAWN: usize = 1 << 20;

/// A send whose wait fails has its buffer back: its receiver has what was sent, or an error, and
/// never what is written there then.
pub fn withdrawn<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let active = Active::open(&context).map_err(text)?;
    let m = Messenger::open(&world).map_err(text)?;
    let layout =
        Layout::vector(WITHDRAWN as u64 / 16, 1, 2, &Layout::basic(Basic::F64)).map_err(text)?;
    if world.rank() == 1 {
        for (at, tag) in [3, 4, 5].into_iter().enumerate() {
            active.send(0, 1, &[at as u8], &[]).map_err(text)?;
            m.recv(&mut [], 0, 2).map_err(text)?;
            let mut got = vec![0; WITHDRAWN];
            match m.recv(&mut got, 0, tag) {
                Ok(_) => ensure!(got.iter().all(|&byte| byte == 7), "what was written later came"),
                Err(MsgError::GivenUp { rank: 0 }) => {}
                Err(other) => return Err(other.to_string()),
            }
        }
        return world.barrier().map_err(text);
    }
    let result = Rc::new(RefCell::new(Err("no call".to_string())));
    let (weak, says) = (Rc::downgrade(&context), Rc::clone(&result));
    let handler = move |call: &mut rankway::msg::Call<'_, N>| {
        if let Some(context) = weak.upgrade() {
            *says.borrow_mut() = send_and_give_up(&context, &layout, call.header[0]);
        }
        HandlerStatus::Consumed
    };
    active.register(1, handler).map_err(text)?;
    for _ in 0..3 {
        active.wait_until(1, || result.borrow().is_ok()).map_err(text)?;
        std::mem::replace(&mut *result.borrow_mut(), Err("no call".into()))?;
        m.send(&[], 1, 2).map_err(text)?;
    }
    world.barrier().map_err(text)
}

/// A handler that puts its message off, by sending it to its own process once more, has it back
/// in the next round: others come meanwhile.
pub fn put_off<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let active = Active::open(&context).map_err(text)?;
    let (me, n) = (world.rank(), world.size());
    let (goes, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (may, ended, weak) = (Rc::clone(&goes), Rc::clone(&done), Rc::downgrade(&context));
    let again = move |_: &mut rankway::msg::Call<'_, N>| {
        let sent = may.get()
            || weak
                .upgrade()
                .and_then(|context| Active::open(&context).ok())
                .is_some_and(|active| matches!(active.try_send(me, 1, &[], &[]), Ok(true)));
        ended.set(may.get());
        if sent { HandlerStatus::Consumed } else { HandlerStatus::Held }
    };
    active.register(1, again).map_err(text)?;
    let go = Rc::clone(&goes);
    let goes_on = move |_: &mut rankway::msg::Call<'_, N>| {
        go.set(true);
        HandlerStatus::Consumed
    };
    active.register(2, goes_on).map_err(text)?;
    active.send(me, 1, &[], &[]).map_err(text)?;
    for _ in 0..100 {
        context.progress().map_err(text)?;
    }
    ensure!(!done.get(), "nobody has said that it may go on");
    world.barrier().map_err(text)?;
    active.send((me + 1) % n, 2, &[], &[]).map_err(text)?;
    active.wait_until((me + n - 1) % n, || done.get()).map_err(text)?;
    world.barrier().map_err(text)
}

/// Who has sent may leave: what it sent calls the handler, which is slow.
pub fn left<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const COUNT: u32 = 500;
    const LEN: usize = 3000;
    let context = N::open(boot)?;
    let active = Active::open(&context).map_err(text)?;
    if context.device().boot().rank() == 0 {
        return (0..COUNT).try_for_each(|seed| {
            active.send(1, 1, &seed.to_le_bytes(), &pattern(seed, LEN)).map_err(text)
        });
    }
    let (came, wrong) = (Rc::new(Cell::new(0_u32)), Rc::new(RefCell::new(Ok(()))));
    let (count, checked) = (Rc::clone(&came), Rc::clone(&wrong));
    let handler = move |call: &mut rankway::msg::Call<'_, N>| {
        let seed = count.replace(count.get() + 1);
        let good = same("header", call.header, &seed.to_le_bytes())
            .and_then(|()| same("of who left", call.payload, &pattern(seed, LEN)));
        if good.is_err() {
            *checked.borrow_mut() = good;
        }
        std::thread::sleep(Duration::from_millis(2));
        HandlerStatus::Consumed
    };
    std::thread::sleep(Duration::from_millis(300));
    active.register(1, handler).map_err(text)?;
    active.wait_until(0, || came.get() == COUNT).map_err(text)?;
    wrong.replace(Ok(()))
}

/// Everybody posts to everybody, itself too, headers and payloads of all lengths, before a
/// handler is there, and on from handlers: all arrive once, in the order of each sender.
pub fn posts<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const MANY: u32 = 300;
    const HOPS: u32 = 3;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let active = Active::open(&context).map_err(text)?;
    let (me, n) = (world.rank(), world.size());
    // Header: origin, number, hops left, then a pattern; payload: a pattern.
    let lengths = |number: u32| match number % 6 {
        0 => (12, 0),
        1 => (300, 8),
        2 => (12 + number as usize, 3000),
        3 => (40, 8200 - 40),
        4 => (200, 100_000 + number as usize),
        _ => (12, 300_003),
    };
    let first_hops = |number: u32| if number.is_multiple_of(5) { HOPS } else { 0 };
    let header = move |origin: u32, number: u32, hops: u32| {
        let mut header = [origin, number, hops].map(u32::to_le_bytes).concat();
        header.extend(pattern(number, lengths(number).0 - 12));
        header
    };
    let wrong = Rc::new(RefCell::new(None::<String>));
    let came = Rc::new(Cell::new(0_u32));
    // What posts; empty again before the end, as a handler that holds it keeps it open.
    let poster = Rc::new(RefCell::new(Some(active.clone())));
    // Payloads stay until all is over.
    let kept = Rc::new(RefCell::new(Vec::new()));
    let cookies = Cell::new(NonZeroU64::MIN);
    let (through, stays) = (Rc::clone(&poster), Rc::clone(&kept));
    let post = Rc::new(move |to: u32, (origin, number, hops): (u32, u32, u32)| {
        let payload = pattern(number + 1, lengths(number).1);
        let cookie = cookies.replace(cookies.get().saturating_add(1));
        let (start, len) = (payload.as_ptr(), payload.len());
        let active = through.borrow();
        let active = active.as_ref().ok_or("over")?;
        // SAFETY: kept until all payloads are ours again.
        let done = unsafe { active.post(to, 9, &header(origin, number, hops), start, len, cookie) };
        if !done.map_err(text)? {
            stays.borrow_mut().push((cookie, payload));
        }
        Ok::<(), String>(())
    });
    let last = RefCell::new(vec![None; n as usize]);
    let (notes, count, next) = (Rc::clone(&wrong), Rc::clone(&came), Rc::clone(&post));
    let handler = move |call: &mut rankway::msg::Call<'_, N>| {
        let word = |i: usize| call.header.get(4 * i..4 * i + 4).and_then(|b| b.try_into().ok());
        let word = |i| word(i).map_or(u32::MAX, u32::from_le_bytes);
        let (origin, number, hops) = (word(0), word(1), word(2));
        let payload = pattern(number + 1, lengths(number).1);
        let checked = same("header", call.header, &header(origin, number, hops))
            .and_then(|()| same("payload", call.payload, &payload));
        let mut last = last.borrow_mut();
        let before: Option<u32> = last.get(call.from as usize).copied().flatten();
        if let Err(e) = checked {
            *notes.borrow_mut() = Some(e);
        } else if hops == first_hops(number) {
            if before.is_some_and(|before| before >= number) {
                *notes.borrow_mut() = Some(format!("{number} of {origin} after {before:?}"));
            }
            last[call.from as usize] = Some(number);
        }
        count.set(count.get() + 1);
        if hops > 0
            && let Err(e) = next((me + 1) % n, (origin, number, hops - 1))
        {
            *notes.borrow_mut() = Some(e);
        }
        HandlerStatus::Consumed
    };
    let mut handler = Some(handler);
    for number in 0..MANY {
        if number == MANY / 3 {
            let handler = handler.take().ok_or("once")?;
            active.register(9, handler).map_err(text)?;
        }
        for to in 0..n {
            post(to, (me, number, first_hops(number)))?;
        }
    }
    let long = [0; 1 << 20];
    // SAFETY: no payload.
    let refused =
        unsafe { active.post((me + 1) % n, 9, &long, std::ptr::null(), 0, NonZeroU64::MIN) };
    ensure!(matches!(refused, Err(MsgError::TooLong { .. })), "{refused:?}");
    let wanted = n * (MANY + MANY.div_ceil(5) * HOPS);
    let start = std::time::Instant::now();
    while came.get() < wanted || !kept.borrow().is_empty() {
        context.progress().map_err(text)?;
        while let Some((cookie, ended)) = active.next_posted() {
            ended.map_err(text)?;
            let mut kept = kept.borrow_mut();
            let at = kept.iter().position(|of: &(NonZeroU64, Vec<u8>)| of.0 == cookie);
            kept.swap_remove(at.ok_or("a cookie nobody gave")?);
        }
        if let Some(e) = wrong.borrow_mut().take() {
            return Err(e);
        }
        let (came, away) = (came.get(), kept.borrow().len());
        ensure!(
            start.elapsed() < Duration::from_secs(100),
            "{came} of {wanted} came, {away} payloads are away"
        );
    }
    world.barrier().map_err(text)?;
    ensure!(came.get() == wanted, "{} came of {wanted}", came.get());
    poster.take();
    Ok(())
}

/// What waits within a handler is refused, and is as it was.
pub fn nested<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let active = Active::open(&context).map_err(text)?;
    let me = world.rank();
    let mut memory = [0_u64; 8];
    // SAFETY: the memory outlives the window.
    let window = unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 64, 8) };
    let window = Rc::new(window.map_err(text)?);
    window.post(&[me], Assert::NONE).map_err(text)?;
    window.start(&[me], Assert::NONE).map_err(text)?;
    let refusals = Rc::new(Cell::new(0));
    let count = Rc::clone(&refusals);
    // Weak, for the handler lives in the context.
    let (weak, of_window) = (Rc::downgrade(&context), Rc::downgrade(&window));
    let handler = move |_: &mut rankway::msg::Call<'_, N>| {
        if let (Some(context), Some(window)) = (weak.upgrade(), of_window.upgrade()) {
            let world = Communicator::world(&context);
            if let (Ok(m), Ok(active)) = (Messenger::open(&world), Active::open(&context)) {
                let refused = |r: std::result::Result<(), MsgError>| {
                    matches!(r, Err(MsgError::Device(DeviceError::Nested)))
                };
                let collective = |r: std::result::Result<(), rankway::rma::Error>| {
                    let kind = r.as_ref().map_err(|e| e.kind());
                    matches!(kind, Err(ErrorKind::Device(DeviceError::Nested)))
                };
                count.set(
                    u32::from(collective(world.barrier()))
                        + u32::from(collective(world.split(Some(0), 0).map(drop)))
                        + u32::from(collective(world.allgather(&[1]).map(drop)))
                        + u32::from(collective(Window::allocate(&world, 64, 8).map(drop)))
                        + u32::from(collective(window.wait()))
                        + u32::from(collective(window.complete()))
                        + u32::from(refused(m.recv(&mut [0], 0, 1).map(drop)))
                        + u32::from(refused(m.send(&[0], 0, 1)))
                        + u32::from(refused(active.send(0, 1, &[], &[])))
                        + u32::from(context.progress().is_ok()),
                );
            }
        }
        HandlerStatus::Consumed
    };
    active.register(1, handler).map_err(text)?;
    active.send(me, 1, &[], &[]).map_err(text)?;
    active.wait_until(me, || refusals.get() > 0).map_err(text)?;
    ensure!(refusals.get() == 10, "{} of 10", refusals.get());
    window.put(&[7; 8], me, 1).map_err(text)?;
    window.complete().map_err(text)?;
    window.wait().map_err(text)?;
    ensure!(memory[1] == u64::from_ne_bytes([7; 8]), "{:x}", memory[1]);
    let mut window = Rc::into_inner(window).ok_or("a handler has the window")?;
    window.free().map_err(text)?;
    world.barrier().map_err(text)
}

/// A full mailbox makes its senders wait; all comes in order in the end.
pub fn mailbox<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const MANY: u32 = 3000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let active = Active::open(&context).map_err(text)?;
    let (me, n) = (world.rank(), world.size());
    if me == 0 {
        let mailbox = Mailbox::open(&active, 3, 16).map_err(text)?;
        // Nobody reads: the senders stop at their credit, 64 messages each.
        let start = std::time::Instant::now();
        let full = || mailbox.len() == 16 && active.held() > 0;
        while !full() && start.elapsed() < Duration::from_secs(20) {
            context.progress().map_err(text)?;
        }
        let since = std::time::Instant::now();
        while since.elapsed() < Duration::from_millis(50) {
            context.progress().map_err(text)?;
        }
        ensure!(mailbox.len() == 16, "{} messages", mailbox.len());
        let held = active.held();
        ensure!(held > 0 && held <= 64 * (n - 1) as usize, "{held} held");
        let reader = std::thread::spawn(move || -> Result {
            let mut next = vec![0_u32; n as usize];
            for _ in 0..MANY * (n - 1) {
                let message = mailbox.wait(Duration::from_secs(20)).ok_or("no message")?;
                let i = &mut next[message.from as usize];
                ensure!(message.header == i.to_le_bytes(), "{:?}, not {i}", message.header);
                same("message", &message.payload, &pattern(*i, *i as usize % 300))?;
                *i += 1;
            }
            ensure!(mailbox.wait(Duration::from_millis(20)).is_none(), "one more");
            Ok(())
        });
        while !reader.is_finished() {
            context.progress().map_err(text)?;
            std::thread::yield_now();
        }
        reader.join().map_err(|_| "the reader panicked")??;
    } else {
        let mut refused = false;
        for i in 0..MANY {
            let payload = pattern(i, i as usize % 300);
            let sent = active.try_send(0, 3, &i.to_le_bytes(), &payload).map_err(text)?;
            refused |= !sent;
            if !sent {
                active.send(0, 3, &i.to_le_bytes(), &payload).map_err(text)?;
            }
        }
        ensure!(refused, "always space");
    }
    world.barrier().map_err(text)
}

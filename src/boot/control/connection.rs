//! One connection of the set-up channel.

use super::protocol;
use super::socket::Address;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Dialed; the TCP handshake is under way.
    Connecting,
    /// Greeted; the peer has not answered with its secret.
    Greeted,
    /// Accepted; the caller has not greeted.
    Accepted,
    /// Both sides are authenticated.
    Open,
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) state: State,
    /// Known from the start when dialed, from the greeting when accepted.
    pub(super) peer: Option<u32>,
    pub(super) since: Instant,
    pub(super) input: Vec<u8>,
    pub(super) output: VecDeque<Vec<u8>>,
    /// Bytes of the first output already written.
    written: usize,
    /// Where it leads; `None` for an accepted one.
    pub(super) address: Option<Address>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, state: State) -> Self {
        Connection {
            stream,
            state,
            peer: None,
            since: Instant::now(),
            input: Vec::new(),
            output: VecDeque::new(),
            written: 0,
            address: None,
        }
    }

    /// Returns true if it leads to a Unix socket of this user.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.address, Some(Address::Local(_)))
    }

    pub(super) fn write(&mut self) -> std::io::Result<()> {
        if self.state == State::Connecting {
            return Ok(());
        }
        while let Some(first) = self.output.front() {
            match self.stream.write(&first[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if self.written == first.len() {
                self.output.pop_front();
                self.written = 0;
            }
        }
        Ok(())
    }

    /// Reads what is there, a share of it where there is very much. `Ok(false)`
    /// at the end of the stream.
    pub(super) fn read(&mut self) -> std::io::Result<bool> {
        /// Reads at once; others have something to say, too.
        const READS: u32 = 256;
        let mut buffer = [0u8; 8 << 10];
        for _ in 0..READS {
            // Who is not authenticated may not fill our memory.
            let limit = match self.state {
                State::Accepted => protocol::GREETING.saturating_sub(self.input.len()),
                State::Connecting | State::Greeted => {
                    protocol::ANSWER.saturating_sub(self.input.len())
                }
                State::Open => buffer.len(),
            };
            if limit == 0 {
                return Ok(true);
            }
            match self.stream.read(&mut buffer[..limit]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

//! Values gathered around a ring of members, in two parts.

use super::Gathered;

/// Values of consecutive members, one of them first and rank 0 behind the last rank. Those from
/// rank 0 on are apart: what follows a formula by rank begins anew there, unless it happens to
/// come round with the number of ranks.
#[derive(Debug)]
pub(crate) struct Around<G> {
    up_to_last: G,
    from_0: G,
    /// How many there are of both.
    members: u32,
    /// Ranks from the first up to the last.
    before_0: u32,
}

impl<G: Gathered> Around<G> {
    /// What a gather of `size` members begins with in member `me`, which says `mine`; `nobody`
    /// is of no members.
    pub(crate) fn new(mine: G, nobody: G, (size, me): (u32, u32)) -> Around<G> {
        Around { up_to_last: mine, from_0: nobody, members: 1, before_0: size - me }
    }

    /// The values of so many members, `me` of `size` first, of what `of` says of the first of
    /// some ranks and how many they are.
    ///
    /// # Errors
    /// As `of`.
    pub(crate) fn of<E>(
        members: u32,
        (size, me): (u32, u32),
        of: impl Fn(u32, u32) -> Result<G, E>,
    ) -> Result<Around<G>, E> {
        let before_0 = size - me;
        let high = members.min(before_0);
        Ok(Around { up_to_last: of(me, high)?, from_0: of(0, members - high)?, members, before_0 })
    }

    /// How many of so many members, `me` of `size` first, are no further than the last rank, and
    /// their part of what [`head`](Gathered::head) made.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub(crate) fn first_part(
        bytes: &[u8],
        members: u32,
        (size, me): (u32, u32),
    ) -> Result<(u32, &[u8]), &'static str> {
        let before_0 = size - me;
        if members <= before_0 { Ok((members, bytes)) } else { Ok((before_0, split(bytes)?.0)) }
    }

    /// Those from rank 0 on, and those behind them up to the last rank: in the order of ranks
    /// once they are all.
    pub(crate) fn by_rank(self) -> (G, G) {
        (self.from_0, self.up_to_last)
    }
}

impl<G: Gathered> Gathered for Around<G> {
    fn head(&self, members: u32) -> Vec<u8> {
        if members <= self.before_0 {
            return self.up_to_last.head(members);
        }
        let high = self.up_to_last.head(self.before_0);
        let mut bytes = (high.len() as u32).to_le_bytes().to_vec();
        bytes.extend(high);
        bytes.extend(self.from_0.head(members - self.before_0));
        bytes
    }

    fn append(&mut self, members: u32, values: &[u8]) -> Result<(), String> {
        // Whoever sent them is the next of these, and ends where they do.
        let high = self.before_0.saturating_sub(self.members);
        self.members += members;
        if high == 0 {
            return self.from_0.append(members, values);
        }
        if members <= high {
            return self.up_to_last.append(members, values);
        }
        let (first, rest) = split(values)?;
        self.up_to_last.append(high, first)?;
        self.from_0.append(members - high, rest)
    }
}

/// Both parts of what [`head`](Gathered::head) made, where there are both.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (len, rest) = bytes.split_first_chunk::<4>().ok_or("too short")?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or("too short")
}

//! A communicator, group or window as one of its members knows it, as 24 bytes.

use std::fmt;

/// The parent of what was made of no communicator.
pub const NO_PARENT: u32 = 0;

/// What a definition is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A communicator with one group.
    Communicator,
    /// A communicator between two groups.
    Intercommunicator,
    /// A window.
    Window,
    /// A file.
    File,
    /// A group.
    Group,
    /// A derived datatype.
    Datatype,
    /// A persistent request.
    Request,
}

impl ObjectKind {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Communicator => "communicator",
            ObjectKind::Intercommunicator => "intercommunicator",
            ObjectKind::Window => "window",
            ObjectKind::File => "file",
            ObjectKind::Group => "group",
            ObjectKind::Datatype => "datatype",
            ObjectKind::Request => "request",
        }
    }

    /// Returns true of what each process has for itself, whatever its size.
    pub(super) fn is_of_one(self) -> bool {
        matches!(self, ObjectKind::Group | ObjectKind::Datatype | ObjectKind::Request)
    }

    /// Returns true of communicators and of what has one within: what MPIs can run out of.
    pub fn has_communicator(self) -> bool {
        use ObjectKind::{Communicator, File, Intercommunicator, Window};
        matches!(self, Communicator | Intercommunicator | Window | File)
    }
}

macro_rules! constructors {
    ($($constructor:ident = $number:literal $kind:ident $name:literal,)*) => {
        /// What made it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Constructor {
            $(#[doc = concat!("`", $name, "`")] $constructor = $number,)*
        }

        impl Constructor {
            /// All there are, by number.
            pub const ALL: &[Constructor] = &[$(Constructor::$constructor,)*];

            /// The function's name, as MPI has it; of what is there from the start the
            /// object's.
            pub fn name(self) -> &'static str {
                match self { $(Constructor::$constructor => $name,)* }
            }

            /// What it makes.
            pub fn object(self) -> ObjectKind {
                match self { $(Constructor::$constructor => ObjectKind::$kind,)* }
            }

            /// The constructor of this number.
            pub fn of_number(number: u8) -> Option<Constructor> {
                match number { $($number => Some(Constructor::$constructor),)* _ => None }
            }
        }
    };
}

constructors! {
    World = 1 Communicator "MPI_COMM_WORLD",
    ItSelf = 2 Communicator "MPI_COMM_SELF",
    Dup = 3 Communicator "MPI_Comm_dup",
    DupWithInfo = 4 Communicator "MPI_Comm_dup_with_info",
    Idup = 5 Communicator "MPI_Comm_idup",
    IdupWithInfo = 6 Communicator "MPI_Comm_idup_with_info",
    Split = 7 Communicator "MPI_Comm_split",
    SplitType = 8 Communicator "MPI_Comm_split_type",
    Create = 9 Communicator "MPI_Comm_create",
    CreateGroup = 10 Communicator "MPI_Comm_create_group",
    CreateFromGroup = 11 Communicator "MPI_Comm_create_from_group",
    CartCreate = 12 Communicator "MPI_Cart_create",
    CartSub = 13 Communicator "MPI_Cart_sub",
    GraphCreate = 14 Communicator "MPI_Graph_create",
    DistGraphCreate = 15 Communicator "MPI_Dist_graph_create",
    DistGraphCreateAdjacent = 16 Communicator "MPI_Dist_graph_create_adjacent",
    IntercommMerge = 17 Communicator "MPI_Intercomm_merge",
    IntercommCreate = 30 Intercommunicator "MPI_Intercomm_create",
    IntercommDup = 31 Intercommunicator "MPI_Comm_dup (of an intercommunicator)",
    IntercommSplit = 32 Intercommunicator "MPI_Comm_split (of an intercommunicator)",
    Spawn = 33 Intercommunicator "MPI_Comm_spawn",
    SpawnMultiple = 34 Intercommunicator "MPI_Comm_spawn_multiple",
    Parent = 35 Intercommunicator "MPI_Comm_get_parent",
    Accept = 36 Intercommunicator "MPI_Comm_accept",
    Connect = 37 Intercommunicator "MPI_Comm_connect",
    Join = 38 Intercommunicator "MPI_Comm_join",
    IntercommCreateOf = 39 Intercommunicator "MPI_Comm_create (of an intercommunicator)",
    IntercommCreateFromGroups = 40 Intercommunicator "MPI_Intercomm_create_from_groups",
    WinCreate = 50 Window "MPI_Win_create",
    WinAllocate = 51 Window "MPI_Win_allocate",
    WinAllocateShared = 52 Window "MPI_Win_allocate_shared",
    WinCreateDynamic = 53 Window "MPI_Win_create_dynamic",
    FileOpen = 60 File "MPI_File_open",
    CommGroup = 70 Group "MPI_Comm_group",
    CommRemoteGroup = 71 Group "MPI_Comm_remote_group",
    WinGetGroup = 72 Group "MPI_Win_get_group",
    GroupIncl = 73 Group "MPI_Group_incl",
    GroupExcl = 74 Group "MPI_Group_excl",
    GroupRangeIncl = 75 Group "MPI_Group_range_incl",
    GroupRangeExcl = 76 Group "MPI_Group_range_excl",
    GroupUnion = 77 Group "MPI_Group_union",
    GroupIntersection = 78 Group "MPI_Group_intersection",
    GroupDifference = 79 Group "MPI_Group_difference",
    GroupFromSessionPset = 80 Group "MPI_Group_from_session_pset",
    TypeConstruct = 90 Datatype "MPI_Type (constructor)",
    PersistentRequest = 95 Request "MPI_Send_init, MPI_Bcast_init or their kin",
}

impl fmt::Display for Constructor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What names a communicator (or window, or file) on all its members: equal on them, and
/// on no others'.
///
/// It is a hash of what the members know without a message: what it was made of, which
/// of the objects made of that it is, and what tells apart those that one call makes (the
/// colour of a split, else the world rank of rank 0). With 64 bits, two of 100,000
/// communicators have the same with a probability of 3e-10. Where the members cannot count
/// together (`MPI_Comm_create_group`), rank 0 tells them its world rank and its counter,
/// the paper's key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub u64);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:016x})", self.0)
    }
}

impl Identity {
    /// Of the world of a job, which a number names that no other job has.
    pub fn world(job: u64) -> Identity {
        Identity(mix(job ^ 0x7277_5f77_6f72_6c64))
    }

    /// What that is made of which is made of no communicator of the job.
    pub(super) fn root(job: u64) -> Identity {
        Identity(mix(job ^ 0x7277_5f72_6f6f_7400))
    }

    /// Of what is made of this: the `ordinal`-th on all its members, and which of those
    /// that one call makes.
    #[must_use]
    pub fn child(self, ordinal: u32, selector: u64) -> Identity {
        Identity(mix(mix(self.0.wrapping_add(u64::from(ordinal) + 1)) ^ selector))
    }

    /// Of what rank 0, of this world rank in its job, made as the `counter`-th.
    pub fn of_lead(job: u64, world_rank: u32, counter: u32) -> Identity {
        Identity(mix(mix(!job) ^ (u64::from(world_rank) << 32 | u64::from(counter))))
    }
}

/// A bijection that spreads all bits (the finalizer of SplitMix64; Steele, Lea, Flood,
/// 2014).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What else is to be known of a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefinitionFlags(pub u8);

impl DefinitionFlags {
    /// Nothing.
    pub const NONE: DefinitionFlags = DefinitionFlags(0);
    /// Of the two groups of an intercommunicator this process is in the second (the one
    /// whose rank 0 has the higher world rank, or is in the job with the higher number).
    pub const SECOND_GROUP: DefinitionFlags = DefinitionFlags(1);
    /// The MPI library made it for itself.
    pub const INTERNAL: DefinitionFlags = DefinitionFlags(2);

    /// Returns true if all of `other` are set.
    pub fn has(self, other: DefinitionFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a process keeps of a communicator, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Definition {
    /// What names it on all its members.
    pub identity: Identity,
    /// This process's rank in it (of an intercommunicator, in its local group).
    pub rank: u32,
    /// How many there are (of an intercommunicator, in its local group).
    pub size: u32,
    /// The number that this process gave to what it was made of, or [`NO_PARENT`].
    pub parent: u32,
    /// Number of the place in the program that made it, 0 where that is not known.
    pub site: u16,
    /// What made it.
    pub constructor: Constructor,
    /// What else is to be known.
    pub flags: DefinitionFlags,
}

const _: () = assert!(size_of::<Definition>() == Definition::BYTES);

impl Definition {
    /// Bytes of a definition.
    pub const BYTES: usize = 24;

    /// As it stands in a file.
    pub fn to_bytes(&self) -> [u8; Definition::BYTES] {
        let mut bytes = [0; Definition::BYTES];
        bytes[..8].copy_from_slice(&self.identity.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.rank.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.size.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.parent.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.site.to_le_bytes());
        bytes[22] = self.constructor as u8;
        bytes[23] = self.flags.0;
        bytes
    }

    /// As it stands in a file; `None` if the constructor is not known.
    pub fn from_bytes(bytes: &[u8; Definition::BYTES]) -> Option<Definition> {
        let half = |at| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Some(Definition {
            identity: Identity(u64::from_le_bytes(std::array::from_fn(|i| bytes[i]))),
            rank: half(8),
            size: half(12),
            parent: half(16),
            site: u16::from_le_bytes([bytes[20], bytes[21]]),
            constructor: Constructor::of_number(bytes[22])?,
            flags: DefinitionFlags(bytes[23]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_definition_comes_back_from_its_bytes() {
        for &constructor in Constructor::ALL {
            assert_eq!(Constructor::of_number(constructor as u8), Some(constructor));
            let definition = Definition {
                identity: Identity::world(7).child(3, 4),
                rank: 1,
                size: 1 << 31,
                parent: 9,
                site: 513,
                constructor,
                flags: DefinitionFlags::SECOND_GROUP,
            };
            assert_eq!(Definition::from_bytes(&definition.to_bytes()), Some(definition));
        }
        assert_eq!(Definition::from_bytes(&[0; Definition::BYTES]), None);
    }

    /// Neighbouring ordinals, selectors, parents and jobs do not meet.
    #[test]
    fn identities_differ() {
        let mut seen = BTreeSet::new();
        let (jobs, ordinals, selectors) = if cfg!(miri) { (2, 3, 4) } else { (8, 32, 64) };
        for job in 0..jobs {
            let world = Identity::world(job);
            assert!(seen.insert(world));
            for ordinal in 0..ordinals {
                for selector in 0..selectors {
                    let child = world.child(ordinal, selector);
                    assert!(seen.insert(child));
                    assert!(seen.insert(child.child(0, selector)));
                    assert!(seen.insert(Identity::of_lead(job, ordinal, selector as u32)));
                }
            }
        }
    }
}

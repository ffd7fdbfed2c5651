//! Which provider serves the node where none is named.

use super::*;

/// The module for the node, on all ranks.
pub fn node_by_default(boot: Arc<dyn Boot>) -> Result {
    serves(boot, "node")
}

/// Where one of them may not be attached to, none takes it, and windows are put to as ever.
pub fn library_where_one_is_closed(boot: Arc<dyn Boot>) -> Result {
    if boot.rank() == 1 {
        // SAFETY: numbers.
        let closed = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
        ensure!(closed == 0, "prctl: {}", std::io::Error::last_os_error());
    }
    serves(boot, "shm")
}

/// Where one of them was told of another they all go by libraries, if not by one.
pub fn library_where_one_was_told(boot: Arc<dyn Boot>) -> Result {
    let name = (boot.rank() == 1).then(|| "shm".to_owned());
    let context = device::open_ofi(boot, &device::Options::default().provider(name));
    goes_by(&context.map_err(text)?, "shm")
}

fn serves(boot: Arc<dyn Boot>, name: &str) -> Result {
    goes_by(&<Ofi as Opens>::open(boot)?, name)
}

fn goes_by(context: &Rc<Context<Ofi>>, name: &str) -> Result {
    let local = context.device().provider(Transport::Local);
    let taken = local.map(|netmod| netmod.caps().provider.clone());
    ensure!(taken.as_deref() == Some(name), "{taken:?} serves the node, and not {name}");
    let world = Communicator::world(context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<CREATED, _>(&world, 8 * n as usize, 8).map_err(text)?;
    w.fence().map_err(text)?;
    for to in 0..n {
        w.put(&u64::from(me * 100 + to).to_le_bytes(), to, me as usize).map_err(text)?;
    }
    w.fence().map_err(text)?;
    let want: Vec<u8> = (0..n).flat_map(|r| u64::from(r * 100 + me).to_le_bytes()).collect();
    same("by default", &own(&w)?, &want)?;
    w.free().map_err(text)
}

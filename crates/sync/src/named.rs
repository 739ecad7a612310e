//! Named objects: one shell for all kinds, which makes, opens and removes. A kind says what differs.

use crate::called::Had;
use crate::error::ObjectError;
use crate::handle::Handle;
use crate::registry::{Arena, ArenaOptions};
use chappe_arena::layout::Kind;
use chappe_arena::{Admin, ArenaError, Map, Place, check_name};
use chappe_wait::attachment::tidy;
use std::marker::PhantomData;

/// A kind of object, as the shell must know it.
pub(crate) trait NamedKind: Sized {
    const KIND: Kind;
    /// Why an object was not made, opened or removed.
    type Error: From<ObjectError>;
    /// What an object is made as.
    type Plan<'a>;

    /// Refuses what cannot be made; else the options of an arena that is made for such an object.
    fn room(plan: &Self::Plan<'_>) -> Result<ArenaOptions, Self::Error>;

    /// Makes the object, under the arena's lock, with a name that is free.
    fn lay_out(plan: &Self::Plan<'_>, map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError>;

    /// The object that a handle leads to. Refuses one of another type and, with a plan, one that was made as something else.
    fn attach(handle: Handle, wanted: Option<&Self::Plan<'_>>) -> Result<Self, Self::Error>;

    /// Refuses an object that is there, and differs in what may be changed later.
    fn fits(&self, _plan: &Self::Plan<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// That there is such an object already.
    fn exists(handle: &Handle) -> Self::Error {
        handle.exists().into()
    }

    /// How it is used, if it is.
    fn in_use(_handle: &Handle) -> Option<String> {
        None
    }

    /// Refuses an object in use.
    fn close(handle: &Handle) -> Result<(), Self::Error> {
        Self::in_use(handle).map_or(Ok(()), |how| Err(handle.in_use(how).into()))
    }

    /// Takes it out of service; unless `force`, only if it is not in use.
    fn unmake(handle: &Handle, admin: &Admin, force: bool) -> Result<(), Self::Error> {
        if !force {
            Self::close(handle)?;
        }
        handle.map.unmake(admin, handle.place);
        Ok(())
    }
}

/// The shell of a kind.
pub(crate) struct Named<K>(PhantomData<K>);

impl<K: NamedKind> Named<K> {
    /// Attaches an object by name.
    pub fn open(name: &str) -> Result<K, K::Error> {
        K::attach(Handle::open(K::KIND, name)?, None)
    }

    /// Attaches an object of an arena by its name there.
    pub fn open_in(arena: &Arena, name: &str) -> Result<K, K::Error> {
        check_name(name, K::KIND.name()).map_err(ObjectError::from)?;
        K::attach(Handle::open_in(arena.map(), K::KIND, name)?, None)
    }

    /// Makes an object by name, and its arena if need be; or, if the caller wants that, attaches the object that is there.
    pub fn make(name: &str, plan: &K::Plan<'_>, or_open: bool) -> Result<K, K::Error> {
        let lay_out = &mut |map, admin: &_, name: &_| K::lay_out(plan, map, admin, name);
        Handle::make(&K::room(plan)?, K::KIND, name, lay_out, |handle, there| Self::made(handle, there, plan, or_open))
    }

    /// Makes an object in an arena.
    pub fn create_in(arena: &Arena, name: &str, plan: &K::Plan<'_>) -> Result<K, K::Error> {
        K::room(plan)?;
        check_name(name, K::KIND.name()).map_err(ObjectError::from)?;
        let lay_out = &mut |map, admin: &_, name: &_| K::lay_out(plan, map, admin, name);
        Handle::make_in(arena.map(), K::KIND, name, lay_out, |handle, there| Self::made(handle, there, plan, false))?
    }

    fn made(handle: Handle, there: bool, plan: &K::Plan<'_>, or_open: bool) -> Result<K, K::Error> {
        if there && !or_open {
            return Err(K::exists(&handle));
        }
        let it = K::attach(handle, Some(plan))?;
        if there {
            it.fits(plan)?;
        }
        Ok(it)
    }

    /// Obtains an object by name; `plan` says also what one that is there must be.
    pub fn obtain(name: &str, how: Had, plan: &K::Plan<'_>) -> Result<K, K::Error> {
        if how != Had::Opened {
            return Self::make(name, plan, how == Had::Either);
        }
        // Not its room: of what is there, only what the kind compares has to fit.
        K::attach(Handle::open(K::KIND, name)?, Some(plan))
    }

    /// Makes an object for the threads of this process.
    pub fn private(plan: &K::Plan<'_>) -> Result<K, K::Error> {
        K::room(plan)?;
        K::attach(Handle::private(&mut |map, admin, name| K::lay_out(plan, map, admin, name))?, None)
    }

    /// Makes an object without a chosen name: see [`Handle::unnamed`].
    pub fn unnamed(arena: &Arena, plan: &K::Plan<'_>) -> Result<K, K::Error> {
        K::room(plan)?;
        let lay_out = &mut |map, admin: &_, name: &_| K::lay_out(plan, map, admin, name);
        K::attach(Handle::unnamed(arena, K::KIND, lay_out)?, None)
    }

    /// Removes an object by name; unless `force`, only one that is not in use. Well, too, if another thread has removed it meanwhile.
    pub fn remove(name: &str, force: bool) -> Result<(), K::Error> {
        let Some((handle, admin)) = Handle::to_remove(K::KIND, name)? else { return Ok(()) };
        K::unmake(&handle, &admin, force)?;
        tidy();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::PoolError;
    use crate::permit;
    use crate::pool::Pool;
    use chappe_wait::wait::Discipline;

    #[test]
    fn a_pool_must_have_the_wanted_size_only_if_it_was_there_already() {
        let options = ArenaOptions { members: Some(8), objects: Some(8), cells: Some(16), data: Some(1 << 20) };
        let map = Arena::apart(&options).unwrap().map();
        let place = permit::make_pool(map, &map.admin(), "p", 8, Discipline::Fifo).unwrap();
        let plan = (4, Discipline::Fifo);
        let made = |there| Named::<Pool>::made(Handle::at(map, place), there, &plan, true);
        assert!(made(false).is_ok(), "another thread may have resized what the caller has just made");
        assert!(matches!(made(true), Err(PoolError::OtherSize { has: 8, wanted: 4, .. })));
    }
}

//! Operations that wait at most for some time, or until a point in time: written once for both.

/// Makes two functions of one: `fn NAME_timeout, NAME_deadline(&self, ...) -> ANSWER { |until| BODY }`. The last parameter of the first is
/// `timeout`, a duration, that of the second `deadline`. The documentation is the first one's. `until()` is how long to wait: it reads the clock,
/// so a body calls it after its fast path. An attribute for both comes last, behind a semicolon.
macro_rules! timed {
    ($(#[$doc:meta])* $(; #[$attr:meta])? $vis:vis fn $timeout:ident, $deadline:ident $(<$($g:tt),+>)? (&$me:ident $(, $arg:ident: $type:ty)*) -> $($rest:tt)*) => {
        $crate::timed::timed!(@ [$(#[$doc])*] [$(#[$attr])?] [$(#[$attr] #[doc = concat!("\n# Panics\nAs [`Self::", stringify!($timeout), "`].")])?] [$vis] $timeout "Self::", $deadline [$(<$($g),+>)?] [&$me,] [$($arg: $type,)*] $($rest)*);
    };
    ($(#[$doc:meta])* $(; #[$attr:meta])? $vis:vis fn $timeout:ident, $deadline:ident $(<$($g:tt),+>)? (&mut $me:ident $(, $arg:ident: $type:ty)*) -> $($rest:tt)*) => {
        $crate::timed::timed!(@ [$(#[$doc])*] [$(#[$attr])?] [$(#[$attr] #[doc = concat!("\n# Panics\nAs [`Self::", stringify!($timeout), "`].")])?] [$vis] $timeout "Self::", $deadline [$(<$($g),+>)?] [&mut $me,] [$($arg: $type,)*] $($rest)*);
    };
    ($(#[$doc:meta])* $(; #[$attr:meta])? $vis:vis fn $timeout:ident, $deadline:ident $(<$($g:tt),+>)? ($($arg:ident: $type:ty),*) -> $($rest:tt)*) => {
        $crate::timed::timed!(@ [$(#[$doc])*] [$(#[$attr])?] [$(#[$attr])?] [$vis] $timeout "", $deadline [$(<$($g),+>)?] [] [$($arg: $type,)*] $($rest)*);
    };
    (@ [$($doc:tt)*] [$($attr:tt)*] [$($last:tt)*] [$vis:vis] $timeout:ident $path:literal, $deadline:ident [$($generics:tt)*] [$($receiver:tt)*] [$($args:tt)*]
        $answer:ty { |$until:ident| $($body:tt)* }) => {
        $($doc)*
        $($attr)*
        $vis fn $timeout $($generics)* ($($receiver)* $($args)* timeout: std::time::Duration) -> $answer {
            let $until = || chappe_wait::patience::Until::after(timeout);
            $($body)*
        }

        #[doc = concat!("As [`", $path, stringify!($timeout), "`], waiting at most until `deadline`.")]
        ///
        /// # Errors
        #[doc = concat!("As [`", $path, stringify!($timeout), "`].")]
        $($last)*
        $vis fn $deadline $($generics)* ($($receiver)* $($args)* deadline: std::time::Instant) -> $answer {
            let $until = || chappe_wait::patience::Until::at(deadline);
            $($body)*
        }
    };
}

pub(crate) use timed;

//! Libraries that are loaded when they are first used, so that neither building nor running anything else needs them.
//!
//! A library stays loaded: its threads run its code.

/// Makes a `Library` of a file's name and of its calls, each with the type that the library's header gives it.
macro_rules! library {
    ($file:literal; $($name:ident: $type:ty,)*) => {
        struct Library { $($name: $type,)* }

        impl Library {
            fn load() -> Result<Library, String> {
                let file = concat!($file, "\0").as_ptr().cast();
                // SAFETY: the name ends with a zero; the library's constructors are those of a library that is made to be loaded.
                let handle = unsafe { libc::dlopen(file, libc::RTLD_NOW | libc::RTLD_LOCAL) };
                if handle.is_null() {
                    // SAFETY: after a failure this thread's message is a text.
                    let why = unsafe { std::ffi::CStr::from_ptr(libc::dlerror()) };
                    return Err(why.to_string_lossy().into_owned());
                }
                Ok(Library {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the handle is open, and the name ends with a zero.
                        let at = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                        if at.is_null() {
                            return Err(format!("{} has no {}", $file, stringify!($name)));
                        }
                        // SAFETY: the library's header, which the number in its name stands for, gives the call this type.
                        unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(at) }
                    },)*
                })
            }
        }
    };
}

pub(super) use library;

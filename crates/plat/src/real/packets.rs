//! Packets as they go by at a network interface (packet(7)), with the time at which the kernel saw each, and a count of those for which there was no room.
//!
//! A socket takes what goes by from [`Tap::open`] on. The kernel keeps it in a buffer until it is received; what finds that full is lost, and
//! [`Tap::lost`] says how many. Up to [`BATCH`] packets come with one system call.
//!
//! Two things are done as capture libraries do them, so that records are the same. The kernel takes a VLAN tag out of a packet and tells it beside:
//! the tag is put back. On an interface that loops (`lo`) each packet goes by twice, and only the one that comes in is taken; before Linux 4.20 the other one
//! takes room in the buffer, too, and may be counted as lost.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Packets that come with one system call.
pub const BATCH: usize = 64;
/// Bytes of a VLAN tag, for which each packet has room in front.
const TAG: usize = 4;
/// Where the tag stands: behind the two addresses.
const TAG_AT: usize = 12;
/// Room for what the kernel tells beside a packet: its time and its tag.
const BESIDE: usize = 128;

/// What a packet begins with, by the numbers that capture files have for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link(pub u32);

impl Link {
    /// An Ethernet head.
    pub const ETHERNET: Link = Link(1);
    /// No head: the packet's protocol begins at once.
    pub const RAW: Link = Link(101);
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Link::ETHERNET => f.write_str("Ethernet"),
            Link::RAW => f.write_str("raw IP"),
            Link(other) => write!(f, "link type {other}"),
        }
    }
}

/// Why nothing can be taken from an interface.
#[derive(Debug)]
pub enum Refused {
    /// There is none of this name.
    NoInterface,
    /// This process may not: it has no CAP_NET_RAW.
    NotPermitted,
    /// The interface is down.
    Down,
    /// Its packets have heads that are not known here: the kernel's number of its hardware.
    Hardware(u16),
    /// The system's.
    System(io::Error),
}

/// One packet.
#[derive(Debug)]
pub struct Packet<'a> {
    /// When the kernel saw it, in nanoseconds since 1970.
    pub at: u64,
    /// Its bytes, or as many as were asked for.
    pub bytes: &'a [u8],
    /// How many it had.
    pub length: u32,
}

/// What is wanted of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// The most bytes of a packet.
    pub snap: usize,
    /// Bytes of packets that wait in the kernel. The kernel counts more than their lengths, and has a limit for processes without CAP_NET_ADMIN.
    pub buffer: usize,
    /// Also what is for others.
    pub promiscuous: bool,
}

fn number(name: &CStr) -> Option<i32> {
    // SAFETY: the name is a text.
    let number = unsafe { libc::if_nametoindex(name.as_ptr()) };
    i32::try_from(number).ok().filter(|n| *n > 0)
}

fn socket(domain: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: touches no memory of ours.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn link_of(hardware: u16) -> Result<Link, Refused> {
    match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(Link::ETHERNET),
        libc::ARPHRD_NONE | libc::ARPHRD_PPP => Ok(Link::RAW),
        other => Err(Refused::Hardware(other)),
    }
}

/// What an interface's packets begin with. Needs no privilege.
///
/// # Errors
/// There is no such interface, or it is of a kind that is not known here.
pub fn link(interface: &str) -> Result<Link, Refused> {
    let name = CString::new(interface).map_err(|_| Refused::NoInterface)?;
    number(&name).ok_or(Refused::NoInterface)?;
    let any = socket(libc::AF_INET, libc::SOCK_DGRAM).map_err(Refused::System)?;
    // SAFETY: a plain struct of numbers.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let bytes = name.as_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return Err(Refused::NoInterface);
    }
    request.ifr_name.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as libc::c_char);
    // SAFETY: the request lives, and has the interface's name.
    if unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCGIFHWADDR as libc::Ioctl, &raw mut request) } != 0 {
        return Err(Refused::System(io::Error::last_os_error()));
    }
    // SAFETY: the call has filled this part in.
    link_of(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// Takes packets from an interface.
pub struct Tap {
    fd: OwnedFd,
    link: Link,
    loops: bool,
    snap: usize,
    /// Room for a batch: of each packet a tag and its bytes.
    room: Vec<u8>,
    beside: Vec<[u64; BESIDE / 8]>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tap({:?}, {})", self.fd, self.link)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sets an option of a socket to a value.
fn set<T>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives through the call, and has so many bytes.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of a socket.
fn get<T: Copy>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, mut value: T) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives through the call, and has so many bytes.
    let done = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length) };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

impl Tap {
    /// Takes what goes by from now on.
    ///
    /// # Errors
    /// Why not.
    pub fn open(interface: &str, wishes: &Wishes) -> Result<Tap, Refused> {
        let name = CString::new(interface).map_err(|_| Refused::NoInterface)?;
        let index = number(&name).ok_or(Refused::NoInterface)?;
        // Without a protocol, nothing comes from other interfaces before it is bound to this one.
        let fd = socket(libc::AF_PACKET, libc::SOCK_RAW).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => Refused::NotPermitted,
            _ => Refused::System(e),
        })?;
        let one: libc::c_int = 1;
        let buffer = libc::c_int::try_from(wishes.buffer).unwrap_or(libc::c_int::MAX);
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &buffer)
            .or_else(|_| set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &buffer))
            .and_then(|()| set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &one))
            .and_then(|()| set(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &one))
            .map_err(Refused::System)?;
        // SAFETY: a plain struct of numbers.
        let mut at: libc::sockaddr_ll = unsafe { zeroed() };
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        at.sll_ifindex = index;
        let mut length = size_of_val(&at) as libc::socklen_t;
        // SAFETY: the address lives, and has so many bytes.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), length) } != 0 {
            let e = io::Error::last_os_error();
            // It went between its number and this.
            return Err(if e.raw_os_error() == Some(libc::ENODEV) { Refused::NoInterface } else { Refused::System(e) });
        }
        let error = get(&fd, libc::SOL_SOCKET, libc::SO_ERROR, 0 as libc::c_int).map_err(Refused::System)?;
        match error {
            0 => {}
            libc::ENETDOWN => return Err(Refused::Down),
            other => return Err(Refused::System(io::Error::from_raw_os_error(other))),
        }
        // SAFETY: the address lives, and its length says how many bytes it has.
        if unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut at).cast(), &raw mut length) } != 0 {
            return Err(Refused::System(io::Error::last_os_error()));
        }
        if wishes.promiscuous {
            let mr_type = libc::PACKET_MR_PROMISC as u16;
            let join = libc::packet_mreq { mr_ifindex: index, mr_type, mr_alen: 0, mr_address: [0; 8] };
            set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &join).map_err(Refused::System)?;
        }
        let loops = at.sll_hatype == libc::ARPHRD_LOOPBACK;
        if loops {
            // An older kernel refuses, and `receive` passes over them.
            let _ = set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one);
        }
        let snap = wishes.snap.max(1);
        Ok(Tap {
            fd,
            link: link_of(at.sll_hatype)?,
            loops,
            snap,
            room: vec![0; BATCH * (TAG + snap)],
            beside: vec![[0; BESIDE / 8]; BATCH],
        })
    }

    /// What its packets begin with.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Gives what has come, at most [`BATCH`] packets; answers how many there were. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; `NetworkDown` if the interface has gone down, or away; the system's.
    pub fn receive(&mut self, mut see: impl FnMut(Packet<'_>)) -> io::Result<usize> {
        let stride = TAG + self.snap;
        type Three = ([libc::mmsghdr; BATCH], [libc::iovec; BATCH], [libc::sockaddr_ll; BATCH]);
        // SAFETY: plain structs of numbers and pointers, which null pointers are valid for.
        let (mut heads, mut pieces, mut froms): Three = unsafe { zeroed() };
        for at in 0..BATCH {
            let bytes = &mut self.room[at * stride + TAG..(at + 1) * stride];
            pieces[at] = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let head = &mut heads[at].msg_hdr;
            head.msg_name = (&raw mut froms[at]).cast();
            head.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            head.msg_iov = &raw mut pieces[at];
            head.msg_iovlen = 1;
            head.msg_control = (&raw mut self.beside[at]).cast();
            head.msg_controllen = BESIDE as _;
        }
        let (flags, count) = ((libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _, BATCH as libc::c_uint);
        let fd = self.fd.as_raw_fd();
        // SAFETY: so many heads, each of which names room of ours that lives through the call.
        let came = unsafe { libc::recvmmsg(fd, heads.as_mut_ptr(), count, flags, std::ptr::null_mut()) };
        if came < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut seen = 0;
        for at in 0..came as usize {
            if self.loops && froms[at].sll_pkttype == libc::PACKET_OUTGOING {
                continue;
            }
            let (time, tag) = beside(&heads[at].msg_hdr);
            // With MSG_TRUNC that is the packet's own length, also where it had no room.
            let length = heads[at].msg_len;
            let kept = (length as usize).min(self.snap);
            let whole = &mut self.room[at * stride..at * stride + TAG + kept];
            let packet = match tag {
                Some(tag) if kept >= TAG_AT => {
                    whole.copy_within(TAG..TAG + TAG_AT, 0);
                    whole[TAG_AT..TAG_AT + TAG].copy_from_slice(&tag);
                    let most = self.snap.min(whole.len());
                    Packet { at: time, bytes: &whole[..most], length: length + TAG as u32 }
                }
                _ => Packet { at: time, bytes: &whole[TAG..], length },
            };
            see(packet);
            seen += 1;
        }
        Ok(seen)
    }

    /// How many packets found no room since this was last asked.
    ///
    /// # Errors
    /// The system's.
    pub fn lost(&self) -> io::Result<u64> {
        let none = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, none).map(|told| told.tp_drops.into())
    }
}

/// What the kernel has told beside a packet: when it saw it, and the tag that it took out.
fn beside(head: &libc::msghdr) -> (u64, Option<[u8; TAG]>) {
    let (mut time, mut tag) = (0, None);
    // SAFETY: the kernel has filled the head and its control part in; what follows stays within that part.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(head) };
    while !next.is_null() {
        // SAFETY: the macro has seen to it that a whole head lies there.
        let (level, kind, data) = unsafe { ((*next).cmsg_level, (*next).cmsg_type, libc::CMSG_DATA(next)) };
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: this kind has this struct, at any alignment.
                let at: libc::timespec = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                time = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                // SAFETY: this kind has this struct, at any alignment.
                let told: libc::tpacket_auxdata = unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
                if told.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    let known = told.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                    let kind = if known { told.tp_vlan_tpid } else { 0x8100 };
                    let ([a, b], [c, d]) = (kind.to_be_bytes(), told.tp_vlan_tci.to_be_bytes());
                    tag = Some([a, b, c, d]);
                }
            }
            _ => {}
        }
        // SAFETY: as for the first.
        next = unsafe { libc::CMSG_NXTHDR(head, next) };
    }
    (time, tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_known_by_its_name_and_one_that_is_missing_is_said_to_be() {
        assert_eq!(link("lo").unwrap(), Link::ETHERNET);
        for name in ["no-such-if", "a-name-that-is-longer-than-any", "with\0zero", ""] {
            assert!(matches!(link(name), Err(Refused::NoInterface)), "{name:?}");
        }
        assert_eq!((Link::RAW.to_string(), Link(9).to_string()), ("raw IP".into(), "link type 9".into()));
    }
}

//! A network of its own for one test, with names and addresses of its own, so that the program as it is can reach "the
//! internet" without a byte leaving the machine. It goes with the thread that it was made for and what that started.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;

/// The address that everything outside has. It is of a range for documentation, which nobody has; so tests can.
pub(crate) const ADDRESS: [u8; 4] = [192, 0, 2, 7];

/// Runs a test where these names are the only ones, given as lines of a hosts file. Only root can make a network: for
/// others the test is left out, with a word.
pub(crate) fn on_an_island<F: Future<Output = ()>>(hosts: &str, test: impl FnOnce() -> F + Send + 'static) {
    // SAFETY: it takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return leave_out("only root can make a network of its own for a test");
    }
    let mut names = tempfile::NamedTempFile::new().unwrap();
    write!(names, "127.0.0.1 localhost\n{hosts}").unwrap();
    names.flush().unwrap();
    // Namespaces belong to a thread; what it starts, threads and programs, inherits them.
    let thread = std::thread::spawn(move || {
        leave(names.path().to_str().unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Says why a test is left out.
#[allow(clippy::print_stderr, reason = "it is for whoever looks at what was tested")]
pub(crate) fn leave_out(why: &str) {
    eprintln!("left out: {why}");
}

fn leave(hosts: &str) -> std::io::Result<()> {
    let text = |text: &str| std::ffi::CString::new(text).unwrap();
    let mount = |from: &str, to: &str, flags: libc::c_ulong| {
        let (from, to) = (text(from), text(to));
        // SAFETY: both are texts that live through the call, and the other two pointers may be null.
        check(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), std::ptr::null(), flags, std::ptr::null()) })
    };
    // SAFETY: it takes a number, and changes this thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) })?;
    mount("none", "/", libc::MS_REC | libc::MS_PRIVATE)?;
    mount(hosts, "/etc/hosts", libc::MS_BIND)?;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let ask = |request: libc::Ioctl, interface: &mut libc::ifreq| {
        // SAFETY: the socket is open, and every request here reads and writes one such structure.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), request, std::ptr::from_mut(interface)) })
    };
    let mut loopback = interface("lo");
    ask(libc::SIOCGIFFLAGS, &mut loopback)?;
    // SAFETY: the request just wrote the flags.
    unsafe { loopback.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short };
    ask(libc::SIOCSIFFLAGS, &mut loopback)?;
    let mut second = interface("lo:1");
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ADDRESS) },
        sin_zero: [0; 8],
    };
    // SAFETY: both have sixteen bytes and no padding; the kernel reads the family to know which it is.
    second.ifr_ifru.ifru_addr = unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address) };
    ask(libc::SIOCSIFADDR, &mut second)
}

fn interface(name: &str) -> libc::ifreq {
    // SAFETY: it is made of numbers, for all of which zero is a value.
    let mut interface: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in interface.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    interface
}

fn check(result: libc::c_int) -> std::io::Result<()> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

//! Messages between the native driver and the launcher.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What to launch: one line of JSON on the launcher's standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Launch {
    /// The sandbox's own directory on the host: the socket, the upper layer and the state live here.
    pub dir: PathBuf,
    /// The directory that `dir` and every layer are below. On disk files have the ids they have inside; in the sandbox's
    /// own mount namespace this directory is shown with those ids shifted into the sandbox's range.
    pub storage: PathBuf,
    /// The read-only layers of the root, topmost first.
    pub layers: Vec<PathBuf>,
    /// Whether the layers are a system from elsewhere: what every sandbox has and they lack is then put there.
    pub furnish: bool,
    /// How user ids are mapped.
    pub ids: Ids,
    /// Host directories and files that are visible inside, read-only.
    pub binds: Vec<Bind>,
    /// Directories below those that are not: an empty one is shown instead.
    pub hidden: Vec<PathBuf>,
    /// Size of /dev/shm.
    pub shm_bytes: u64,
    /// Name of the machine inside.
    pub hostname: String,
    /// Control groups to make and join; empty where the host gives none.
    pub cgroups: Vec<Cgroup>,
    /// Limits that the kernel keeps for each process.
    pub rlimits: Vec<(Rlimit, u64)>,
    /// Variables of every process inside.
    pub env: Vec<(String, String)>,
    /// Working directory of processes inside.
    pub cwd: String,
    /// The sandbox ends after this long; the time begins at the launch, and anew when it is given
    /// to another owner ([`crate::given`]).
    pub wall_clock_ms: Option<u64>,
    /// Whether connections out are led to sockets that [`Command::Sockets`] hands out. Without it there is only loopback.
    pub network: bool,
    /// What the writable layer may hold.
    pub disk: Disk,
    /// Whether programs inside may make user namespaces, and mount what they like in those.
    pub user_namespaces: bool,
    /// How long it lives.
    pub life: Life,
}

/// What a writable layer may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
}

/// What can be asked of a monitor, at [`files::CONTROL`]: one line of JSON on a connection of its own, answered by one
/// line of JSON ([`Answer`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Hand out the sockets of the sandbox's network; their descriptors come with the answer.
    Sockets,
    /// Measure the disk now, and tell.
    Disk,
}

/// What a monitor answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// With the descriptors, in this order: the explicit proxy's listener, the socket for names, if `names` the listener for
    /// names, if `transparent` the listener for redirected connections and the socket for other datagrams, and, if `ipv6`,
    /// that listener, the socket for names and that for other datagrams once more for IPv6.
    Sockets {
        /// Whether the kernel redirects.
        transparent: bool,
        /// Whether names can be asked for over a connection; older monitors do not know of that.
        #[serde(default)]
        names: bool,
        /// Whether the kernel redirects IPv6, too; older monitors do not do that.
        #[serde(default)]
        ipv6: bool,
    },
    /// What is on the disk, and how often a limit was reached.
    Disk(DiskUsage),
    /// It cannot be done.
    Refused(String),
}

/// What is on a sandbox's disk. Counting ends where a limit is exceeded: then it is at least this much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUsage {
    /// Bytes of all files in the writable layer.
    pub bytes: u64,
    /// Files and directories in it.
    pub inodes: u64,
    /// How often the limit of bytes was reached.
    pub byte_hits: u64,
    /// How often the limit of files was reached.
    pub inode_hits: u64,
    /// How often a process was found that had as many files open as it may.
    #[serde(default)]
    pub open_file_hits: u64,
    /// How often `/dev/shm` was found full.
    #[serde(default)]
    pub shared_hits: u64,
}

/// How user ids are mapped. Processes inside always run as [`INSIDE_ID`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ids {
    /// The launcher is root: inside ids 0 to 65535 are a range of host ids that no other sandbox has.
    Range,
    /// The launcher is an ordinary user: the inside user is that user, and there is no other.
    Own,
}

/// User and group id of processes inside.
pub const INSIDE_ID: u32 = 1000;

/// Size of a range of ids.
pub const RANGE: u32 = 65536;

/// The first host id of the first range; far above what systems give to people and to containers.
pub const FIRST_RANGE: u32 = 0x1000_0000;

/// How many ranges there are.
pub const RANGES: u32 = 0x6fff;

/// How long a sandbox lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// Until it is removed: it outlives the server.
    Own,
    /// It ends, and its directory goes, when the launcher's standard input closes: no death of the owner, however
    /// sudden, leaves it behind.
    Tied,
}

/// A host path that is visible inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub source: PathBuf,
    /// Inside; must exist in a layer.
    pub target: PathBuf,
}

/// A control group to make.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cgroup {
    /// Its directory.
    pub path: PathBuf,
    /// Which kind of hierarchy it is in.
    pub hierarchy: Hierarchy,
    /// Files to write.
    pub settings: Vec<Setting>,
    /// File with an `oom_kill` line that counts kills for lack of memory.
    pub oom_file: Option<String>,
}

/// Kinds of control groups. They differ in how a process gets in without the kernel stopping every other one for it,
/// which would take longer than all the rest of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hierarchy {
    /// Version 1: the process moves its one thread by itself.
    V1,
    /// Version 2: the process is born there.
    V2,
}

/// A file of a control group to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setting {
    /// Name of the file.
    pub file: String,
    /// Its content.
    pub value: String,
    /// Whether a host without this file will do.
    pub optional: bool,
}

/// Limits of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rlimit {
    /// Open files.
    OpenFiles,
    /// Processes of the sandbox's user.
    Processes,
    /// Private writable memory of one process.
    Data,
    /// Size of a core dump.
    Core,
    /// Size of one file.
    FileSize,
}

/// How the launch went: one line of JSON on the launcher's standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The guest takes connections.
    Ready {
        /// The monitor.
        monitor: u32,
        /// Pid 1 of the sandbox, as the host sees it.
        init: u32,
    },
    /// Nothing was left behind.
    Failed {
        /// What was being done.
        stage: Stage,
        /// In words.
        message: String,
        /// The system's error number.
        errno: i32,
    },
}

/// What the launcher was doing when it failed; the driver turns it into advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Reading what to launch.
    Spec,
    /// Using the sandbox's directory.
    Directory,
    /// Making control groups.
    Cgroup,
    /// Making a user namespace.
    UserNamespace,
    /// Making the other namespaces.
    Namespaces,
    /// Setting up the network.
    Network,
    /// Showing the layers with the sandbox's ids.
    Storage,
    /// Mounting the root.
    Overlay,
    /// Mounting anything else.
    Mount,
    /// Giving up privileges.
    Privileges,
    /// Restricting what files can be used for.
    Landlock,
    /// Installing the system-call filter.
    Seccomp,
    /// Looking whether every promised wall stands.
    Verify,
    /// Starting the guest.
    Guest,
}

/// `state.json` in the sandbox's directory, while it runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    /// The monitor.
    pub monitor: u32,
    /// Pid 1 of the sandbox, as the host sees it.
    pub init: u32,
    /// Its control groups, so that they can be removed if the monitor was killed.
    pub cgroups: Vec<PathBuf>,
}

/// `ended.json` in the sandbox's directory, once it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Why.
    pub cause: Cause,
    /// How many processes were killed for lack of memory.
    pub oom_kills: u64,
    /// The limit that ended it, if one did.
    #[serde(default)]
    pub limit: Option<Limited>,
    /// How it was with its disk.
    #[serde(default)]
    pub disk: DiskUsage,
}

/// Limits that end a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limited {
    /// The time of its life.
    WallClock,
    /// Memory ran out, and there was nothing left to kill but the guest.
    Memory,
    /// It wrote on and on beyond what it may have on the disk.
    DiskBytes,
    /// It made more and more files beyond what it may have.
    DiskInodes,
}

/// Why a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was told to.
    Removed,
    /// Its time was up.
    WallClock,
    /// It wrote on and on beyond its limit of bytes.
    DiskBytes,
    /// It made more and more files beyond its limit.
    DiskInodes,
    /// Its owner went away.
    OwnerGone,
    /// Pid 1 ended by itself or was killed from outside.
    Died,
}

/// Ports on the loopback of a sandbox with a network. Programs inside cannot take them: they are taken.
pub mod ports {
    /// The explicit proxy.
    pub const PROXY: u16 = 3128;
    /// Questions for names.
    pub const NAMES: u16 = 53;
    /// Connections that were redirected; above the ports that the kernel gives to connections.
    pub const TRANSPARENT: u16 = 61_129;
    /// Datagrams that were redirected.
    pub const DATAGRAMS: u16 = 61_130;
}

/// Names of the files in a sandbox's directory.
pub mod files {
    /// The guest's socket.
    pub const SOCKET: &str = "guest.sock";
    /// The monitor's socket.
    pub const CONTROL: &str = "control.sock";
    /// Locked by the monitor while it lives.
    pub const LOCK: &str = "lock";
    /// [`crate::given`].
    pub const GIVEN: &str = "given";
    /// [`super::State`].
    pub const STATE: &str = "state.json";
    /// [`super::Ended`].
    pub const ENDED: &str = "ended.json";
    /// The writable layer.
    pub const UPPER: &str = "upper";
    /// overlayfs's own.
    pub const WORK: &str = "work";
    /// Where the root is mounted, in the sandbox's mount namespace only.
    pub const ROOT: &str = "root";
}

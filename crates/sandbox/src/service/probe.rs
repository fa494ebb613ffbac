//! Probes: how a service is asked whether it is up, from inside its sandbox.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use guest::{Client, Output, ProcessSpec};
use hyper::Uri;
use protocol::{ItemId, Probe};

use super::shell;

/// The longest that one question may take.
const ONE: Duration = Duration::from_secs(10);
/// The shortest that one question is given: a machine that is busy may need that to start a program at all.
const LEAST: Duration = Duration::from_secs(1);
/// How much of the kernel's list of sockets is looked at; those that listen come first.
const SOCKETS: u64 = 4 << 20;
/// How much of what a probe says is kept.
const SAID: usize = 300;

/// Prints the status of the answer to one request, with whatever program there is. Arguments: scheme, host, port, path.
/// Proxies are left aside: the request is to the sandbox itself.
const STATUS: &str = r#"
has() { command -v "$1" >/dev/null 2>&1; }
case $2 in *:*) name="[$2]" ;; *) name=$2 ;; esac
port=$3 path=$4
if has curl; then
  status=$(curl -s -k -o /dev/null --noproxy '*' --max-time 5 -w '%{http_code}' "$1://$name:$port$path")
elif [ "$1" = http ] && has bash; then
  status=$(bash -c 'exec 2>/dev/null 3<>"/dev/tcp/$1/$2" && printf "GET %s HTTP/1.0\r\nHost: %s:%s\r\n\r\n" "$3" "$4" "$2" >&3 &&
    read -r _ status _ <&3 && echo "$status"' bash "$2" "$port" "$path" "$name")
elif has python3; then
  status=$(python3 -c '
import http.client, ssl, sys
scheme, host, port, path = sys.argv[1:]
if scheme == "https":
    peer = http.client.HTTPSConnection(host, int(port), timeout=5, context=ssl._create_unverified_context())
else:
    peer = http.client.HTTPConnection(host, int(port), timeout=5)
peer.request("GET", path)
print(peer.getresponse().status)' "$1" "$2" "$port" "$path" 2>/dev/null)
elif [ "$1" = http ] && has nc; then
  status=$(printf 'GET %s HTTP/1.0\r\nHost: %s:%s\r\n\r\n' "$path" "$name" "$port" |
    nc -w 5 "$2" "$port" 2>/dev/null | { read -r _ status _; echo "$status"; })
else
  echo "there is no curl, bash, python3 or nc in the sandbox to ask with"; exit 2
fi
case $status in
  [1-4][0-9][0-9]) exit 0 ;;
  5[0-9][0-9]) echo "status $status"; exit 1 ;;
  *) echo "no answer"; exit 1 ;;
esac
"#;

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is up.
    Up,
    /// It is not up yet, for this reason.
    NotYet(String),
    /// There was no answer, and it was given less than its time because the service's own was over.
    CutShort(String),
}

/// What a service is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// Nothing.
    None,
    /// Whether something listens on this port.
    Tcp(u16),
    /// Whether this answers.
    Http { scheme: String, host: String, port: u16, path: String },
    /// Whether this command is content.
    Run(String),
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no probe"),
            Self::Tcp(port) => write!(f, "probe: port {port}"),
            Self::Http { scheme, host, port, path } if host.contains(':') => {
                write!(f, "probe: {scheme}://[{host}]:{port}{path}")
            }
            Self::Http { scheme, host, port, path } => write!(f, "probe: {scheme}://{host}:{port}{path}"),
            Self::Run(command) => write!(f, "probe: `{command}`"),
        }
    }
}

impl Question {
    /// Reads a probe; the error is what is wrong and what to do.
    pub(super) fn of(probe: &Probe) -> Result<Self, (String, &'static str)> {
        match probe {
            Probe { tcp: None, http: None, run: None } => Ok(Self::None),
            Probe { tcp: Some(0), http: None, run: None } => {
                Err(("port 0 is no port".to_owned(), "give the port that it listens on"))
            }
            Probe { tcp: Some(port), http: None, run: None } => Ok(Self::Tcp(*port)),
            Probe { tcp: None, http: Some(url), run: None } => http(url),
            Probe { tcp: None, http: None, run: Some(run) } if run.trim().is_empty() => {
                Err(("its probe has no command".to_owned(), "set `ready.run` to a command"))
            }
            Probe { tcp: None, http: None, run: Some(run) } => Ok(Self::Run(run.clone())),
            _ => Err((
                "its probe has more than one key".to_owned(),
                "leave one of `tcp`, `http` and `run` in `ready`",
            )),
        }
    }

    /// Asks once.
    pub(super) async fn ask(&self, guest: &Client, left: Duration) -> Result<Answer, guest::Error> {
        match self {
            Self::None => Ok(Answer::Up),
            Self::Tcp(port) => listens(guest, *port).await,
            Self::Http { scheme, host, port, path } => {
                let port = port.to_string();
                let argv = ["sh", "-c", STATUS, "sh", scheme, host, &port, path].map(str::to_owned).to_vec();
                run(guest, ProcessSpec { argv, ..ProcessSpec::default() }, left).await
            }
            Self::Run(command) => run(guest, shell(command), left).await,
        }
    }
}

fn http(url: &str) -> Result<Question, (String, &'static str)> {
    const HINT: &str = "use an address such as http://127.0.0.1:5173/";
    let wrong = |what: &str| (format!("its probe {} {what}", url.escape_debug()), HINT);
    let uri: Uri = url.parse().map_err(|_| wrong("is no address"))?;
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"));
    let scheme = scheme.ok_or_else(|| wrong("is neither http:// nor https://"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    if !loopback {
        return Err(wrong("is not on the sandbox's loopback"));
    }
    Ok(Question::Http {
        scheme: scheme.to_owned(),
        host: host.to_owned(),
        port: uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 }),
        path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
    })
}

/// Whether the kernel has a socket that listens on this port where loopback reaches it. Needs no program inside.
async fn listens(guest: &Client, port: u16) -> Result<Answer, guest::Error> {
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match guest.read_file(file, 0, SOCKETS).await {
            Ok((table, _)) if table_has(&String::from_utf8_lossy(&table), port) => return Ok(Answer::Up),
            // A kernel may be without the newer protocol.
            Ok(_) | Err(guest::Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Answer::NotYet("nothing listens there".to_owned()))
}

fn table_has(table: &str, port: u16) -> bool {
    /// `TCP_LISTEN` as the kernel writes it.
    const LISTEN: &str = "0A";
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        let Some((address, number)) = local.and_then(|local| local.split_once(':')) else { return false };
        state == Some(LISTEN) && u16::from_str_radix(number, 16) == Ok(port) && on_loopback(address)
    })
}

/// Reads an address of the kernel's table: words of 32 bits in the machine's own order.
fn on_loopback(text: &str) -> bool {
    let word = |at: usize| text.get(at..at + 8).and_then(|word| u32::from_str_radix(word, 16).ok());
    let address = match text.len() {
        8 => word(0).map(|word| IpAddr::from(word.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            let words = (0..4).map(|index| word(index * 8)).collect::<Option<Vec<u32>>>();
            words.map(|words| {
                for (piece, word) in bytes.chunks_exact_mut(4).zip(words) {
                    piece.copy_from_slice(&word.to_ne_bytes());
                }
                Ipv6Addr::from(bytes).to_canonical()
            })
        }
        _ => None,
    };
    address.is_some_and(|address| {
        address.is_loopback() || address == Ipv4Addr::UNSPECIFIED || address == Ipv6Addr::UNSPECIFIED
    })
}

/// Runs a probe's command to its end.
async fn run(guest: &Client, spec: ProcessSpec, left: Duration) -> Result<Answer, guest::Error> {
    let limit = ONE.min(left).max(LEAST);
    let spec = ProcessSpec { timeout_ms: u64::try_from(limit.as_millis()).ok(), ..spec };
    let id = format!("probe-{}", ItemId::new());
    let mut process = guest.start(&id, &spec).await?;
    let mut said = Vec::new();
    let exit = loop {
        match process.next().await? {
            Some(Output::Stdout { data, .. } | Output::Stderr { data, .. }) => {
                let room = SAID.saturating_sub(said.len()).min(data.len());
                said.extend_from_slice(&data[..room]);
            }
            Some(Output::Exit(exit)) => break exit,
            None => return Err(guest::Error::Unavailable("the output of a probe broke off".to_owned())),
        }
    };
    guest.forget(&id).await?;
    if exit.code == 0 {
        return Ok(Answer::Up);
    }
    let said = String::from_utf8_lossy(&said);
    let said: String = said.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let silence = || format!("no answer in {} ms", limit.as_millis());
    Ok(match (exit.timed_out, said.as_str()) {
        (true, _) if limit < ONE => Answer::CutShort(silence()),
        (true, _) => Answer::NotYet(silence()),
        (false, "") => Answer::NotYet(format!("exit {}", exit.code)),
        (false, said) => Answer::NotYet(said.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let loopback = u32::from_ne_bytes([127, 0, 0, 1]);
        let elsewhere = u32::from_ne_bytes([10, 0, 0, 1]);
        let line = |address: &str, port: u16, state: &str| {
            format!("head\n   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000\n")
        };
        let v4 = |address: u32| format!("{address:08X}");
        assert!(table_has(&line(&v4(loopback), 5432, "0A"), 5432));
        assert!(table_has(&line(&v4(0), 5432, "0A"), 5432));
        assert!(!table_has(&line(&v4(loopback), 5432, "0A"), 5433), "another port");
        assert!(!table_has(&line(&v4(loopback), 5432, "01"), 5432), "a connection that is open");
        assert!(!table_has(&line(&v4(elsewhere), 5432, "0A"), 5432), "not on loopback");
        let one = u32::from_ne_bytes([0, 0, 0, 1]);
        assert!(table_has(&line(&format!("{:024}{one:08X}", 0), 80, "0A"), 80));
        assert!(table_has(&line(&"0".repeat(32), 80, "0A"), 80));
        for odd in ["", "head", "head\n1: x", "head\n1: 00:0050 x 0A", "head\n1: é0000000:0050 x 0A"] {
            assert!(!table_has(odd, 80), "{odd:?}");
        }
    }

    #[test]
    fn an_address_is_taken_apart() {
        let probe = |url: &str| Question::of(&Probe { http: Some(url.to_owned()), ..Probe::default() });
        let (scheme, path) = ("http".to_owned(), "/up?x=1".to_owned());
        let question = Question::Http { scheme, host: "::1".to_owned(), port: 8080, path };
        assert_eq!(probe("http://[::1]:8080/up?x=1").unwrap(), question);
        assert_eq!(question.to_string(), "probe: http://[::1]:8080/up?x=1");
        assert_eq!(probe("https://localhost").unwrap().to_string(), "probe: https://localhost:443/");
        for bad in ["localhost:80", "ftp://localhost/", "http://10.0.0.1/", "http:///x", "", "http://a b/"] {
            assert!(probe(bad).is_err(), "{bad}");
        }
    }
}

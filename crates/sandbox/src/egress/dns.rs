//! Answers questions for names. Only what may be connected to has an address, and what was answered is remembered, so that
//! a connection to the address is known for what it is.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::UNKNOWN;
use super::decide::{Gate, Refusal, Remedy};
use super::rules::{Host, harmless};

/// Questions that are looked up at the same time; what is more is told to come again.
const AT_ONCE: usize = 64;

/// How long a program may keep an answer, in seconds. Short, because each connection is looked up anew anyway.
const TTL: u32 = 30;

/// Addresses in one answer; so it fits into the smallest datagram that everybody takes.
const ANSWERS: usize = 12;

const A: u16 = 1;
const PTR: u16 = 12;
const ANY: u16 = 255;
const INTERNET: u16 = 1;

/// The port that questions go to, and that decisions about names are told with.
pub(super) const PORT: u16 = 53;

/// A connection over which nothing was asked or taken for this long is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest question over a connection.
const LONGEST: usize = 4096;

/// What is said of what cannot be read.
const NO_QUESTION: &str = "it is no question for a name";

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Answered = 0,
    Malformed = 1,
    Failed = 2,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
}

/// A question.
#[derive(Debug, PartialEq, Eq)]
struct Question<'a> {
    /// Id and flags.
    head: [u8; 4],
    /// As it came, to be said back.
    raw: &'a [u8],
    /// The name, if it is one that a host can have.
    host: Option<Host>,
    kind: u16,
    class: u16,
}

/// What a datagram is.
#[derive(Debug, PartialEq, Eq)]
enum Read<'a> {
    Question(Question<'a>),
    /// It is none, but its sender can be told.
    Wrong([u8; 4], Code),
    /// It is none.
    Nothing,
}

/// Answers questions, however they come.
pub(super) struct Names {
    gate: Arc<Gate>,
    at_once: Arc<Semaphore>,
}

/// What becomes of a question.
enum Outcome {
    /// This is said.
    Answer(Vec<u8>),
    /// It must be looked up; this rule allows it.
    LookUp(String),
    /// It is none.
    Nothing,
}

impl Names {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        Self { gate, at_once: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Serves the socket until it breaks.
    pub(super) async fn serve(self: Arc<Self>, socket: UdpSocket) {
        let socket = Arc::new(socket);
        let mut lookups = tokio::task::JoinSet::new();
        let mut buffer = vec![0; 4096];
        loop {
            while lookups.try_join_next().is_some() {}
            let (length, from) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    tracing::debug!(%error, "a question did not arrive");
                    // An error of one sender's port; without a pause a lasting one would keep a processor busy.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            };
            let datagram = &buffer[..length];
            match self.judge(datagram) {
                Outcome::Answer(answer) => send(&socket, from, &answer).await,
                Outcome::Nothing => {}
                Outcome::LookUp(rule) => {
                    let Ok(permit) = self.at_once.clone().try_acquire_owned() else {
                        if let Read::Question(Question { head, raw, .. }) = read(datagram) {
                            self.refuse(&name(raw), "too many names are looked up at once", Remedy::AskAgain);
                            send(&socket, from, &reply(head, raw, Code::Failed, &[])).await;
                        }
                        continue;
                    };
                    let (names, socket, datagram) = (self.clone(), socket.clone(), datagram.to_vec());
                    lookups.spawn(async move {
                        let _permit = permit;
                        if let Some(answer) = names.look_up(&datagram, &rule).await {
                            send(&socket, from, &answer).await;
                        }
                    });
                }
            }
        }
    }

    /// Serves a connection, over which each question and each answer comes after its length, until nothing more is asked.
    pub(super) async fn serve_stream(&self, mut stream: TcpStream) {
        loop {
            match tokio::time::timeout(PATIENCE, self.exchange(&mut stream)).await {
                Ok(Ok(More::Maybe)) => {}
                Ok(Ok(More::No)) | Err(_) => return,
                Ok(Err(error)) => return tracing::debug!(%error, "a connection for names broke"),
            }
        }
    }

    async fn exchange(&self, stream: &mut TcpStream) -> std::io::Result<More> {
        let length = match stream.read_u16().await {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(More::No),
            other => usize::from(other?),
        };
        if length > LONGEST {
            self.refuse(UNKNOWN, NO_QUESTION, Remedy::AskAgain);
            return Ok(More::No);
        }
        let mut question = vec![0; length];
        stream.read_exact(&mut question).await?;
        let answer = match self.judge(&question) {
            Outcome::Answer(answer) => Some(answer),
            Outcome::Nothing => None,
            // Whoever asks over a connection waits until it is its turn.
            Outcome::LookUp(rule) => match self.at_once.acquire().await {
                Ok(_permit) => self.look_up(&question, &rule).await,
                Err(_) => None,
            },
        };
        let Some(answer) = answer else { return Ok(More::No) };
        let length = u16::try_from(answer.len()).map_err(std::io::Error::other)?;
        let said = [&length.to_be_bytes(), answer.as_slice()].concat();
        stream.write_all(&said).await?;
        Ok(More::Maybe)
    }

    /// What can be said of a question at once. What is refused is told.
    fn judge(&self, datagram: &[u8]) -> Outcome {
        match read(datagram) {
            Read::Nothing => {
                self.refuse(UNKNOWN, NO_QUESTION, Remedy::AskAgain);
                Outcome::Nothing
            }
            Read::Wrong(head, code) => {
                self.refuse(UNKNOWN, NO_QUESTION, Remedy::AskAgain);
                Outcome::Answer(reply(head, &[], code, &[]))
            }
            Read::Question(question) => match self.at_once_answer(&question) {
                Ok(rule) => Outcome::LookUp(rule),
                Err((code, addresses)) => {
                    Outcome::Answer(reply(question.head, question.raw, code, &addresses))
                }
            },
        }
    }

    /// The rule that allows the question, or the answer if it needs no look-up.
    fn at_once_answer(&self, question: &Question<'_>) -> Result<String, (Code, Vec<Ipv4Addr>)> {
        let unanswered = match (question.class, question.kind) {
            (INTERNET, PTR) => Some("what an address is called is not answered"),
            (INTERNET, ANY) => Some("a question for all that a name has is not answered"),
            (INTERNET, _) => None,
            _ => Some("a question that is not about the internet is not answered"),
        };
        if let Some(why) = unanswered {
            self.refuse(&name(question.raw), why, Remedy::AskAgain);
            return Err((Code::Refused, Vec::new()));
        }
        let (host, called) = match &question.host {
            Some(host @ Host::Name(called)) => (host, called),
            Some(Host::Address(_)) | None => {
                self.refuse(&name(question.raw), "no host is called so", Remedy::AskAgain);
                return Err((Code::NoSuchName, Vec::new()));
            }
        };
        if called == "localhost" || called.ends_with(".localhost") {
            let here = if question.kind == A { vec![Ipv4Addr::LOCALHOST] } else { Vec::new() };
            return Err((Code::Answered, here));
        }
        self.gate.permit_name(host).map_err(|refusal| {
            self.gate.tell(&refusal);
            (Code::NoSuchName, Vec::new())
        })
    }

    fn refuse(&self, name: &str, why: &str, remedy: Remedy) {
        self.gate.tell(&Refusal::new(name, PORT, why, remedy));
    }

    async fn look_up(&self, datagram: &[u8], rule: &str) -> Option<Vec<u8>> {
        let Read::Question(Question { host: Some(host), head, raw, kind, .. }) = read(datagram) else {
            return None;
        };
        self.gate.turn(&host, PORT).await;
        self.gate.tell_asking(&host, rule, datagram.len());
        let (code, addresses) = match kind {
            A => match self.gate.answer(&host).await {
                Ok(addresses) => (Code::Answered, v4(&addresses)),
                Err(why) => {
                    tracing::debug!(why, "a name was not answered");
                    (Code::Failed, Vec::new())
                }
            },
            // Only addresses are told: what else a name has (other addresses, keys to hide names with) leads around us.
            _ => (Code::Answered, Vec::new()),
        };
        let answer = reply(head, raw, code, &addresses);
        self.gate.tell_answered(&host, rule, answer.len());
        Some(answer)
    }
}

/// Whether more may be asked over a connection.
enum More {
    Maybe,
    No,
}

/// The name in a question, as it can be shown.
fn name(raw: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut rest = raw;
    while let Some((&length @ 1.., after)) = rest.split_first() {
        let Some((label, after)) = after.split_at_checked(usize::from(length)) else { break };
        labels.push(label);
        rest = after;
    }
    harmless(&String::from_utf8_lossy(&labels.join(&b'.')))
}

fn v4(addresses: &[IpAddr]) -> Vec<Ipv4Addr> {
    let only = |address: &IpAddr| match address {
        IpAddr::V4(v4) => Some(*v4),
        IpAddr::V6(_) => None,
    };
    addresses.iter().filter_map(only).take(ANSWERS).collect()
}

async fn send(socket: &UdpSocket, to: SocketAddr, answer: &[u8]) {
    if let Err(error) = socket.send_to(answer, to).await {
        tracing::debug!(%error, "an answer was not sent");
    }
}

/// Reads a datagram. A question's name is never compressed: there is nothing before it to point to.
fn read(datagram: &[u8]) -> Read<'_> {
    let [id1, id2, flags1, flags2, questions1, questions2, _, _, _, _, _, _, body @ ..] = datagram else {
        return Read::Nothing;
    };
    let head = [*id1, *id2, *flags1, *flags2];
    // An answer to an answer would go on for ever.
    if flags1 & 0x80 != 0 {
        return Read::Nothing;
    }
    if flags1 >> 3 & 15 != 0 {
        return Read::Wrong(head, Code::NotImplemented);
    }
    if [*questions1, *questions2] != [0, 1] {
        return Read::Wrong(head, Code::Malformed);
    }
    let mut labels = Vec::new();
    let mut at = 0;
    loop {
        let Some(&length) = body.get(at) else { return Read::Wrong(head, Code::Malformed) };
        let length = usize::from(length);
        at += 1;
        if length == 0 {
            break;
        }
        match body.get(at..at + length) {
            Some(label) if length < 64 && at + length < 255 => labels.push(label),
            _ => return Read::Wrong(head, Code::Malformed),
        }
        at += length;
    }
    let Some(&[kind1, kind2, class1, class2]) = body.get(at..at + 4) else {
        return Read::Wrong(head, Code::Malformed);
    };
    // A dot within a label would be read as one between labels.
    let plain = labels.iter().all(|label| !label.contains(&b'.'));
    let host = std::str::from_utf8(&labels.join(&b'.')).ok().and_then(|name| Host::parse(name).ok());
    Read::Question(Question {
        head,
        raw: &body[..at + 4],
        host: host.filter(|_| plain),
        kind: u16::from_be_bytes([kind1, kind2]),
        class: u16::from_be_bytes([class1, class2]),
    })
}

/// Writes an answer.
fn reply(head: [u8; 4], question: &[u8], code: Code, addresses: &[Ipv4Addr]) -> Vec<u8> {
    let [id1, id2, flags, _] = head;
    // It is an answer; recursion is wanted if it was, and is available.
    let mut bytes = vec![id1, id2, 0x80 | flags & 0x79, 0x80 | code as u8];
    bytes.extend_from_slice(&[0, u8::from(!question.is_empty()), 0, addresses.len() as u8, 0, 0, 0, 0]);
    bytes.extend_from_slice(question);
    for address in addresses {
        // The name is the one of the question, at byte 12.
        bytes.extend_from_slice(&[0xc0, 12, 0, A as u8, 0, INTERNET as u8]);
        bytes.extend_from_slice(&TTL.to_be_bytes());
        bytes.extend_from_slice(&[0, 4]);
        bytes.extend_from_slice(&address.octets());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, RCODE, TYPE};

    use super::*;

    fn query(name: &str, kind: TYPE) -> Vec<u8> {
        let mut packet = Packet::new_query(7);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = Name::new(name).unwrap();
        let question = simple_dns::Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false);
        packet.questions.push(question);
        packet.build_bytes_vec().unwrap()
    }

    #[test]
    fn another_reader_and_writer_agrees() {
        let datagram = query("Api.Example.com", TYPE::A);
        let Read::Question(question) = read(&datagram) else { panic!("no question") };
        assert_eq!(question.host, Some(Host::parse("api.example.com").unwrap()));
        assert_eq!((question.kind, question.class), (A, INTERNET));
        let addresses = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let bytes = reply(question.head, question.raw, Code::Answered, &addresses);
        let packet = Packet::parse(&bytes).unwrap();
        assert!(packet.has_flags(PacketFlag::RESPONSE | PacketFlag::RECURSION_AVAILABLE));
        assert_eq!((packet.id(), packet.rcode(), packet.answers.len()), (7, RCODE::NoError, 2));
        assert_eq!(packet.answers[0].name.to_string(), "Api.Example.com");
        assert_eq!(packet.questions.len(), 1);
    }

    #[test]
    fn a_full_answer_fits_into_512_bytes() {
        let long =
            ["a".repeat(60).as_str(), "b".repeat(60).as_str(), "c".repeat(60).as_str(), "test"].join(".");
        let datagram = query(&long, TYPE::A);
        let Read::Question(question) = read(&datagram) else { panic!("no question") };
        let bytes = reply(question.head, question.raw, Code::Answered, &[Ipv4Addr::LOCALHOST; ANSWERS]);
        assert!(bytes.len() <= 512, "{}", bytes.len());
    }

    #[test]
    fn what_is_no_question() {
        let good = query("a.test", TYPE::A);
        let changed = |at: usize, to: u8| {
            let mut bytes = good.clone();
            bytes[at] = to;
            bytes
        };
        let wrong = |bytes: &[u8]| match read(bytes) {
            Read::Wrong(_, code) => Some(code),
            Read::Question(_) | Read::Nothing => None,
        };
        assert_eq!(read(&good[..11]), Read::Nothing);
        assert_eq!(read(&changed(2, 0x81)), Read::Nothing);
        assert_eq!(wrong(&changed(2, 0x10)), Some(Code::NotImplemented));
        assert_eq!(wrong(&changed(5, 2)), Some(Code::Malformed));
        // A name that points to itself.
        assert_eq!(wrong(&changed(12, 0xc0)), Some(Code::Malformed));
        assert_eq!(wrong(&good[..good.len() - 1]), Some(Code::Malformed));
        let dotted = b"\0\x01\0\0\0\x01\0\0\0\0\0\0\x03a.b\0\0\x01\0\x01";
        let Read::Question(question) = read(dotted) else { panic!("no question") };
        assert_eq!(question.host, None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            read(&bytes);
            read(&[b"\0\x01\x01\0\0\x01\0\0\0\0\0\0".as_slice(), &bytes].concat());
        }
    }
}

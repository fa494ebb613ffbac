//! How many names are looked up at a time. A look-up takes a thread until the name server answers or the system gives up,
//! also when nobody waits for it any more, and all of the server shares these threads. So they are counted: those of one
//! sandbox, and those of all together.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Outside;

/// Look-ups of one sandbox at a time.
const OF_ONE: usize = 16;

/// Look-ups of all sandboxes at a time: a quarter of the threads that there are for everything that waits.
pub(super) const OF_ALL: usize = 128;

/// Many that come at once have their turn soon, since most names are answered in moments. Whoever waits longer than this
/// is told that there are too many: a look-up that waits takes no thread.
const PATIENCE: Duration = Duration::from_secs(4);

/// The network as one sandbox may use it.
pub(super) struct Fair {
    outside: Arc<dyn Outside>,
    turns: Arc<Semaphore>,
}

impl Fair {
    pub(super) fn new(outside: Arc<dyn Outside>) -> Self {
        Self { outside, turns: Arc::new(Semaphore::new(OF_ONE)) }
    }
}

#[async_trait::async_trait]
impl Outside for Fair {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let busy = || format!("{OF_ONE} names that this sandbox asked for before are not answered yet");
        let turn = turn(&self.turns, busy).await?;
        let (outside, name) = (self.outside.clone(), name.to_owned());
        // A task goes on when nobody waits for it any more, as the look-up does; so does its turn.
        let look_up = tokio::spawn(async move {
            let found = outside.resolve(&name).await;
            drop(turn);
            found
        });
        look_up.await.map_err(io::Error::other)?
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.outside.connect(address).await
    }

    fn roots(&self) -> Arc<RootCertStore> {
        self.outside.roots()
    }

    fn more_authorities(&self) -> &[CertificateDer<'static>] {
        self.outside.more_authorities()
    }
}

/// Does something on a thread of its own when it is its turn. The turn ends when the thread is free again, and not when
/// nobody waits for it any more.
pub(super) async fn on_a_thread<T: Send + 'static>(
    turns: &Arc<Semaphore>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let busy = || "too many names that other sandboxes asked for are not answered yet".to_owned();
    let turn = turn(turns, busy).await?;
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    done.await.map_err(io::Error::other)?
}

async fn turn(turns: &Arc<Semaphore>, busy: impl FnOnce() -> String) -> io::Result<OwnedSemaphorePermit> {
    match tokio::time::timeout(PATIENCE, turns.clone().acquire_owned()).await {
        Ok(turn) => turn.map_err(io::Error::other),
        Err(_) => Err(io::Error::other(format!("{}; try again later", busy()))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;

    /// Answers when it is allowed to, and counts what it was asked.
    struct Silent {
        asked: AtomicUsize,
        answers: Semaphore,
    }

    #[async_trait::async_trait]
    impl Outside for Silent {
        async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.answers.acquire().await.unwrap().forget();
            Ok(vec![IpAddr::from([203, 0, 113, 1])])
        }

        async fn connect(&self, _address: SocketAddr) -> io::Result<TcpStream> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn roots(&self) -> Arc<RootCertStore> {
            Arc::new(RootCertStore::empty())
        }
    }

    fn silent() -> Arc<Silent> {
        Arc::new(Silent { asked: AtomicUsize::new(0), answers: Semaphore::new(0) })
    }

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_has_few_lookups_at_a_time_also_when_it_gives_them_up() {
        let outside = silent();
        let (one, other) = (Fair::new(outside.clone()), Fair::new(outside.clone()));
        for _ in 0..OF_ONE {
            // Nobody waits for it; it is not answered.
            let given_up = tokio::time::timeout(Duration::from_secs(1), one.resolve("hang.test")).await;
            assert!(given_up.is_err());
        }
        let refused = one.resolve("more.test").await.unwrap_err().to_string();
        assert!(refused.contains("16 names that this sandbox asked for before"), "{refused}");
        assert_eq!(outside.asked.load(Ordering::Relaxed), OF_ONE);

        // Another has its own, and this one has again what was answered.
        let (answered, ()) = tokio::join!(other.resolve("good.test"), async {
            outside.answers.add_permits(OF_ONE + 1);
        });
        assert_eq!(answered.unwrap().len(), 1);
        outside.answers.add_permits(1);
        assert_eq!(one.resolve("good.test").await.unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn many_at_once_have_their_turn() {
        let outside = silent();
        outside.answers.add_permits(10 * OF_ONE);
        let fair = Fair::new(outside);
        let all = (0..10 * OF_ONE).map(|_| fair.resolve("good.test"));
        assert!(futures_util::future::join_all(all).await.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn a_turn_lasts_as_long_as_its_thread() {
        let turns = Arc::new(Semaphore::new(1));
        let (answer, waits) = mpsc::channel::<()>();
        let look_up = on_a_thread(&turns, move || waits.recv().map_err(io::Error::other));
        // It has begun, and is given up.
        assert!(look_up.now_or_never().is_none());
        assert_eq!(turns.available_permits(), 0, "the thread is not free yet");
        answer.send(()).unwrap();
        drop(turns.acquire().await.unwrap());
    }
}

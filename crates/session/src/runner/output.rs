//! Bounded collection of a command's output. Whatever a command prints, memory holds its head and its tail; a file
//! beside the log holds the first megabytes; the rest is counted.

use std::io::SeekFrom;
use std::path::{Path, PathBuf};

use agent::tools::readable;
use protocol::INLINE_OUTPUT_LIMIT;
use protocol::item::Output;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

/// Bytes kept of the beginning, and as many of the end.
const KEPT: usize = 64 * 1024;
/// Bytes written to the file.
pub(crate) const BLOB_LIMIT: u64 = 16 * 1024 * 1024;
/// Bytes that the model reads.
const MODEL_LIMIT: usize = 30 * 1024;
/// Of them, for what is said of the output.
const NOTES: usize = 512;

/// Where the whole output goes once it is long.
enum Blob {
    /// The caller wants none.
    None,
    /// It is made when the output outgrows the log.
    Later { dir: PathBuf, name: String },
    /// It is there.
    Open { file: tokio::fs::File, name: String, written: u64 },
}

/// Collects one command's output.
pub(crate) struct Collector {
    head: Vec<u8>,
    /// The end, and now and then some of what came before it: it is cut only when it is twice as long as it must be.
    tail: Vec<u8>,
    /// Bytes of the output so far, also those that never came.
    total: u64,
    /// Bytes that were given to head and tail, with what is said of those that never came.
    given: u64,
    blob: Blob,
    /// Whether the model was shown less than there is.
    cut: bool,
}

impl Collector {
    /// Keeps head and tail only.
    pub(crate) fn bounded() -> Self {
        Self { head: Vec::new(), tail: Vec::new(), total: 0, given: 0, blob: Blob::None, cut: false }
    }

    /// Keeps head and tail, and more in a file of this name when there is more than the log should hold.
    pub(crate) fn with_blob(dir: PathBuf, name: String) -> Self {
        Self { blob: Blob::Later { dir, name }, ..Self::bounded() }
    }

    /// Goes on where the collector of a server that is gone stopped: what it wrote into its file is what was seen, and is
    /// not written again. What cannot be read of it is left to be collected anew.
    pub(crate) async fn resume(dir: PathBuf, name: String) -> Self {
        match Self::reopen(&dir, &name).await {
            Ok(resumed) => resumed,
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::warn!(%error, %name, "an output that was begun cannot be read again");
                }
                Self::with_blob(dir, name)
            }
        }
    }

    async fn reopen(dir: &Path, name: &str) -> std::io::Result<Self> {
        let mut file = tokio::fs::File::options().read(true).write(true).open(dir.join(name)).await?;
        let written = file.metadata().await?.len();
        let mut this = Self::bounded();
        // Of a file that is full nobody knows what came after it; the process may still have that.
        let head = written.min(KEPT as u64);
        this.head.resize(head as usize, 0);
        file.read_exact(&mut this.head).await?;
        let tail = (written - head).min(KEPT as u64);
        file.seek(SeekFrom::Start(written - tail)).await?;
        this.tail.resize(tail as usize, 0);
        file.read_exact(&mut this.tail).await?;
        (this.total, this.given) = (written, written);
        this.blob = Blob::Open { file, name: name.to_owned(), written };
        Ok(this)
    }

    /// Bytes so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Whether only its beginning and its end are kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.given > 2 * KEPT as u64
    }

    /// Takes more output. `offset` is its place in the whole: what is known already is not taken twice, and bytes before
    /// it that never came are counted, and told in their place.
    pub(crate) async fn push(&mut self, offset: u64, data: &[u8]) {
        let known = usize::try_from(self.total.saturating_sub(offset)).unwrap_or(usize::MAX).min(data.len());
        let data = &data[known..];
        if data.is_empty() {
            return;
        }
        let missing = offset.saturating_sub(self.total);
        if missing > 0 {
            let line_end = if self.given > 0 { "\n" } else { "" };
            self.take(format!("{line_end}[{missing} bytes left out]\n").as_bytes()).await;
            self.total += missing;
        }
        self.total += data.len() as u64;
        self.take(data).await;
    }

    async fn take(&mut self, data: &[u8]) {
        let room = KEPT.saturating_sub(self.head.len()).min(data.len());
        let (first, rest) = data.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(KEPT)..]);
        if self.tail.len() > 2 * KEPT {
            self.tail.drain(..self.tail.len() - KEPT);
        }
        self.given += data.len() as u64;
        self.write(data).await;
    }

    async fn write(&mut self, data: &[u8]) {
        // A disk that is full costs the file, not the command.
        if let Err(error) = self.try_write(data).await {
            tracing::warn!(%error, "an output could not be kept in a file");
            self.blob = Blob::None;
        }
    }

    async fn try_write(&mut self, data: &[u8]) -> std::io::Result<()> {
        match &mut self.blob {
            Blob::None => Ok(()),
            Blob::Later { dir, name } => {
                if self.given <= INLINE_OUTPUT_LIMIT as u64 {
                    return Ok(());
                }
                let mut file = tokio::fs::File::create(dir.join(&*name)).await?;
                // The head, and what of this piece did not fit into it: that is everything so far, unless this one
                // piece is longer than the head, in which case the piece itself has the rest.
                let before = self.head.len().min((self.given - data.len() as u64) as usize);
                file.write_all(&self.head[..before]).await?;
                let room = (BLOB_LIMIT as usize).saturating_sub(before).min(data.len());
                file.write_all(&data[..room]).await?;
                let written = (before + room) as u64;
                self.blob = Blob::Open { file, name: std::mem::take(name), written };
                Ok(())
            }
            Blob::Open { file, written, .. } => {
                let room = usize::try_from(BLOB_LIMIT.saturating_sub(*written)).unwrap_or(0).min(data.len());
                file.write_all(&data[..room]).await?;
                *written += room as u64;
                Ok(())
            }
        }
    }

    /// Head and tail as text, with a line that says what is missing between them.
    pub(crate) fn text(&self) -> String {
        self.ends(KEPT, |bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// At most `each` bytes of the beginning and of the end.
    fn ends(&self, each: usize, show: impl Fn(&[u8]) -> String) -> String {
        let tail = &self.tail[self.tail.len().saturating_sub(KEPT)..];
        if (self.head.len() + tail.len()) as u64 >= self.given && self.given <= 2 * each as u64 {
            let whole = [self.head.as_slice(), tail].concat();
            return show(&whole);
        }
        let head = &self.head[..self.head.len().min(each)];
        let tail = &tail[tail.len().saturating_sub(each)..];
        format!(
            "{}\n[{} bytes left out]\n{}",
            show(head),
            self.given - (head.len() + tail.len()) as u64,
            show(tail)
        )
    }

    /// The text as the model reads it, in a window that bears `most` bytes of it, without what is no text.
    pub(crate) fn model_text(&mut self, most: usize) -> String {
        let most = most.min(MODEL_LIMIT).saturating_sub(NOTES);
        if self.given <= most as u64 {
            return self.ends(KEPT, readable);
        }
        self.cut = true;
        // What is whole is cut between lines; of what is not, only the ends are there to be cut.
        let whole = self.given <= 2 * KEPT as u64;
        let cut = match whole {
            true => agent::tools::cut(&self.ends(KEPT, readable), most),
            false => self.ends(most / 2, readable),
        };
        format!(
            "{cut}\n[the whole output has {} bytes; print less, or write it to a file and search in it]",
            self.total
        )
    }

    /// Closes the file and gives the record of the output, with the text as the model read it.
    pub(crate) async fn finish(mut self, text: String) -> Output {
        let mut blob = None;
        if let Blob::Later { dir, name } = &mut self.blob
            && self.cut
        {
            // It is short for the log and long for the model's window: all of it is in the head.
            match tokio::fs::write(dir.join(&*name), &self.head).await {
                Ok(()) => blob = Some(std::mem::take(name)),
                Err(error) => tracing::warn!(%error, "an output could not be kept in a file"),
            }
        }
        if let Blob::Open { file, name, .. } = &mut self.blob {
            match file.flush().await {
                Ok(()) => blob = Some(std::mem::take(name)),
                Err(error) => tracing::warn!(%error, "an output could not be kept in a file"),
            }
        }
        Output { text, bytes: self.total, blob, images: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_and_file_stay_bounded_and_the_size_is_true() {
        let dir = tempfile::tempdir().unwrap();
        let mut collector = Collector::with_blob(dir.path().to_owned(), "x.out".to_owned());
        let piece = vec![b'a'; 1024 * 1024];
        let mut offset = 0;
        for _ in 0..64 {
            collector.push(offset, &piece).await;
            offset += piece.len() as u64;
            assert!(collector.head.len() + collector.tail.len() <= 3 * KEPT);
        }
        collector.push(offset, b"the end").await;
        let text = collector.model_text(MODEL_LIMIT);
        assert!(text.len() < 40 * 1024, "{}", text.len());
        assert!(text.contains("the end"), "the tail is kept");
        let left_out = format!("[{} bytes left out]", 64 * 1024 * 1024 + 7 - (MODEL_LIMIT - NOTES));
        assert!(text.contains(&left_out), "what is missing is counted once, and truly");
        let output = collector.finish(text).await;
        assert_eq!(output.bytes, 64 * 1024 * 1024 + 7);
        assert_eq!(output.blob.as_deref(), Some("x.out"));
        assert_eq!(std::fs::metadata(dir.path().join("x.out")).unwrap().len(), BLOB_LIMIT);
    }

    #[tokio::test]
    async fn what_a_small_window_cuts_is_kept_too() {
        let dir = tempfile::tempdir().unwrap();
        let whole: Vec<u8> = (0..2_500).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        for (most, kept) in [(6_000, true), (MODEL_LIMIT, false)] {
            let mut collector = Collector::with_blob(dir.path().to_owned(), format!("{most}.out"));
            collector.push(0, &whole).await;
            let text = collector.model_text(most);
            let output = collector.finish(text).await;
            assert_eq!(output.blob.is_some(), kept, "{most}");
        }
        assert_eq!(std::fs::read(dir.path().join("6000.out")).unwrap(), whole);
    }

    #[tokio::test]
    async fn what_is_whole_stays_whole_and_the_file_repeats_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut collector = Collector::with_blob(dir.path().to_owned(), "y.out".to_owned());
        let mut expected = Vec::new();
        for n in 0..10_000 {
            let line = format!("line {n}\n");
            collector.push(expected.len() as u64, line.as_bytes()).await;
            expected.extend_from_slice(line.as_bytes());
        }
        assert_eq!(collector.text().as_bytes(), expected);
        let output = collector.finish(String::new()).await;
        assert_eq!(output.bytes, expected.len() as u64);
        assert_eq!(std::fs::read(dir.path().join("y.out")).unwrap(), expected);
    }

    #[tokio::test]
    async fn a_hole_in_the_stream_is_told_in_its_place() {
        let mut collector = Collector::bounded();
        collector.push(0, b"begin").await;
        collector.push(105, b"end").await;
        assert_eq!(collector.total(), 108);
        assert_eq!(collector.text(), "begin\n[100 bytes left out]\nend");
        let mut late = Collector::bounded();
        late.push(7, b"end").await;
        assert_eq!((late.total(), late.text().as_str()), (10, "[7 bytes left out]\nend"));
    }

    #[tokio::test]
    async fn what_is_no_text_is_named_to_the_model_and_kept_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut collector = Collector::with_blob(dir.path().to_owned(), "b.out".to_owned());
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| ((n * 7919) >> 3) as u8).collect();
        collector.push(0, &bytes).await;
        let text = collector.model_text(MODEL_LIMIT);
        assert!(text.len() < 600 && text.contains("bytes that are no text"), "{text}");
        drop(collector.finish(text).await);
        assert!(std::fs::read(dir.path().join("b.out")).unwrap() == bytes);
    }

    /// The output of a command that a restart came into, with the file that the first server left and the pieces that
    /// the guest still has.
    async fn across_a_restart(whole: &[u8], seen: usize, held: usize) -> (Output, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let name = || "z.out".to_owned();
        let mut first = Collector::with_blob(dir.path().to_owned(), name());
        for (n, piece) in whole[..seen].chunks(10_000).enumerate() {
            first.push(n as u64 * 10_000, piece).await;
        }
        drop(first.finish(String::new()).await);
        let mut second = Collector::resume(dir.path().to_owned(), name()).await;
        for (n, piece) in whole[held..].chunks(9_000).enumerate() {
            second.push((held + n * 9_000) as u64, piece).await;
        }
        let text = second.text();
        let output = second.finish(text).await;
        let file = output.blob.as_ref().map(|blob| std::fs::read(dir.path().join(blob)).unwrap());
        (output, file.unwrap_or_default())
    }

    #[tokio::test]
    async fn what_was_seen_and_what_is_still_held_are_joined_by_their_place() {
        let whole: Vec<u8> = (0..60_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        // Everything is held, some of it is, and what is held begins where the file ends.
        for (seen, held) in [(300_000, 0), (300_000, 123_456), (300_000, 300_000)] {
            let (output, file) = across_a_restart(&whole, seen, held).await;
            assert_eq!(output.bytes, whole.len() as u64);
            assert!(file == whole, "the file has every byte once: {seen} {held}");
            assert!(output.text.starts_with("line 0\n") && output.text.ends_with("line 59999\n"));
        }
        // Less was seen than is written to a file, and everything is held.
        let (output, file) = across_a_restart(&whole, 20_000, 0).await;
        assert_eq!((output.bytes, file == whole), (whole.len() as u64, true));
        // Something is gone.
        let (output, file) = across_a_restart(&whole, 300_000, 350_000).await;
        assert_eq!(output.bytes, whole.len() as u64);
        let expected = [&whole[..300_000], b"\n[50000 bytes left out]\n", &whole[350_000..]].concat();
        assert!(file == expected, "what is missing is told where it is missing");
    }
}

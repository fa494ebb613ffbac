//! Bounded collection of a command's output. Whatever a command prints, memory holds its head and its tail; a file
//! beside the log holds the first megabytes; the rest is counted.

use std::path::PathBuf;

use protocol::INLINE_OUTPUT_LIMIT;
use protocol::item::Output;
use tokio::io::AsyncWriteExt;

/// Bytes kept of the beginning, and as many of the end.
const KEPT: usize = 64 * 1024;
/// Bytes written to the file.
const BLOB_LIMIT: u64 = 16 * 1024 * 1024;
/// Bytes that the model reads.
const MODEL_LIMIT: usize = 30 * 1024;

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
    total: u64,
    blob: Blob,
}

impl Collector {
    /// Keeps head and tail only.
    pub(crate) fn bounded() -> Self {
        Self { head: Vec::new(), tail: Vec::new(), total: 0, blob: Blob::None }
    }

    /// Keeps head and tail, and more in a file of this name when there is more than the log should hold.
    pub(crate) fn with_blob(dir: PathBuf, name: String) -> Self {
        Self { blob: Blob::Later { dir, name }, ..Self::bounded() }
    }

    /// Bytes so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Takes more output. `offset` is its place in the whole: bytes before it that never came are counted.
    pub(crate) async fn push(&mut self, offset: u64, data: &[u8]) {
        self.total = self.total.max(offset);
        let room = KEPT.saturating_sub(self.head.len()).min(data.len());
        let (first, rest) = data.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(KEPT)..]);
        if self.tail.len() > 2 * KEPT {
            self.tail.drain(..self.tail.len() - KEPT);
        }
        self.total += data.len() as u64;
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
                if self.total <= INLINE_OUTPUT_LIMIT as u64 {
                    return Ok(());
                }
                let mut file = tokio::fs::File::create(dir.join(&*name)).await?;
                // The head, and what of this piece did not fit into it: that is everything so far, unless this one
                // piece is longer than the head, in which case the piece itself has the rest.
                let before = self.head.len().min((self.total - data.len() as u64) as usize);
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
        self.ends(KEPT)
    }

    /// At most `each` bytes of the beginning and of the end.
    fn ends(&self, each: usize) -> String {
        let tail = &self.tail[self.tail.len().saturating_sub(KEPT)..];
        if (self.head.len() + tail.len()) as u64 >= self.total && self.total <= 2 * each as u64 {
            let whole = [self.head.as_slice(), tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let head = &self.head[..self.head.len().min(each)];
        let tail = &tail[tail.len().saturating_sub(each)..];
        format!(
            "{}\n[{} bytes left out]\n{}",
            String::from_utf8_lossy(head),
            self.total - (head.len() + tail.len()) as u64,
            String::from_utf8_lossy(tail)
        )
    }

    /// The text as the model reads it.
    pub(crate) fn model_text(&self) -> String {
        if self.total <= MODEL_LIMIT as u64 {
            return self.text();
        }
        // What is whole is cut between lines; of what is not, only the ends are there to be cut.
        let whole = self.total <= 2 * KEPT as u64;
        let cut =
            if whole { agent::tools::cut(&self.text(), MODEL_LIMIT) } else { self.ends(MODEL_LIMIT / 2) };
        format!(
            "{cut}\n[the whole output has {} bytes; print less, or write it to a file and search in it]",
            self.total
        )
    }

    /// Closes the file and gives the record of the output, with the text as the model read it.
    pub(crate) async fn finish(mut self, text: String) -> Output {
        let mut blob = None;
        if let Blob::Open { file, name, .. } = &mut self.blob {
            match file.flush().await {
                Ok(()) => blob = Some(std::mem::take(name)),
                Err(error) => tracing::warn!(%error, "an output could not be kept in a file"),
            }
        }
        Output { text, bytes: self.total, blob }
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
        let text = collector.model_text();
        assert!(text.len() < 40 * 1024, "{}", text.len());
        assert!(text.contains("the end"), "the tail is kept");
        let left_out = format!("[{} bytes left out]", 64 * 1024 * 1024 + 7 - MODEL_LIMIT);
        assert!(text.contains(&left_out), "what is missing is counted once, and truly");
        let output = collector.finish(text).await;
        assert_eq!(output.bytes, 64 * 1024 * 1024 + 7);
        assert_eq!(output.blob.as_deref(), Some("x.out"));
        assert_eq!(std::fs::metadata(dir.path().join("x.out")).unwrap().len(), BLOB_LIMIT);
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
    async fn a_hole_in_the_stream_is_counted() {
        let mut collector = Collector::bounded();
        collector.push(0, b"begin").await;
        collector.push(105, b"end").await;
        assert_eq!(collector.total(), 108);
        assert!(collector.text().contains("[100 bytes left out]"), "{}", collector.text());
    }
}

//! The same answer, however the network cuts it: every cassette, cut at any places, folds into the same thing, and no
//! beginning of one is taken for a whole answer that it is not.

use std::path::Path;

use proptest::prelude::*;
use protocol::chat::{Completion, Request};

use crate::body::{Body, Trouble};
use crate::model::sample;
use crate::provider::Provider;
use crate::quirks::Quirks;
use crate::wire::{self, Fault, Progress};

fn cassettes() -> Vec<(String, Provider, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes");
    let mut found = Vec::new();
    for dir in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(dir.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "sse") {
                let expected = std::fs::read(file.with_extension("json")).unwrap();
                let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
                let provider = serde_json::from_value(expected["provider"].clone()).unwrap();
                found.push((file.display().to_string(), provider, std::fs::read(&file).unwrap()));
            }
        }
    }
    found
}

/// What a body gives that comes in these pieces and then ends.
fn fold<'a>(
    provider: Provider,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Completion, Fault>, String) {
    let model = sample(provider, "m");
    let mut fold = wire::fold(&model, &Request::default(), Quirks::of(&model));
    let mut body = Body::default();
    let mut streamed = String::new();
    let mut sink = |delta| streamed.push_str(&format!("{delta:?}"));
    let mut progress = Progress::Open;
    let read = pieces.into_iter().try_for_each(|piece| {
        if progress < Progress::Closed {
            progress = body.push(piece, fold.as_mut(), &mut sink)?.max(progress);
        }
        Ok(())
    });
    let ended = match read {
        Ok(()) if progress == Progress::Closed => Ok(()),
        Ok(()) => body.end(fold.as_mut(), &mut sink),
        Err(trouble) => Err(trouble),
    };
    let completion = match ended {
        Ok(()) => fold.finish(),
        Err(Trouble::Fault(fault)) => Err(fault),
        Err(Trouble::Silent) => Err(Fault::BrokeOff),
    };
    (completion, streamed)
}

#[test]
fn no_beginning_is_taken_for_another_answer() {
    for (name, provider, bytes) in cassettes() {
        let (whole, _) = fold(provider, [bytes.as_slice()]);
        for end in 0..bytes.len() {
            match (fold(provider, [&bytes[..end]]).0, &whole) {
                (Ok(short), Ok(whole)) => assert_eq!(short.parts, whole.parts, "{name} up to {end}"),
                (Ok(short), Err(_)) => panic!("{name} up to {end}: {short:?}"),
                (Err(_), _) => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_answer(
        which in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..24),
    ) {
        let all = cassettes();
        let (name, provider, bytes) = which.get(&all);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        prop_assert_eq!(fold(*provider, pieces), fold(*provider, [bytes.as_slice()]), "{}", name);
    }
}

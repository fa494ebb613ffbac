//! Folds of a log that are kept in its file: a shorter way for whoever opens it, and never the truth.

use rusqlite::params;

use super::LogFile;
use crate::Error;
use crate::chain::Chain;

/// The first version with kept folds.
const WITH_FOLDS: i64 = 2;

/// Folds that are kept: the last, and one before it in case the last is damaged.
const FOLDS: u64 = 2;

/// A fold of the log up to an event, as whoever folded it wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFold {
    /// The last event in it.
    pub seq: u64,
    /// How `data` is written. A fold of another format is not given out.
    pub format: u64,
    /// The fold.
    pub data: Vec<u8>,
}

impl LogFile {
    /// The last fold of this format that is whole and fits the log. Anything else is not there: the log has it all.
    pub(crate) fn kept_fold(&self, format: u64) -> Option<KeptFold> {
        if self.database.version() < WITH_FOLDS {
            return None;
        }
        type Found = (i64, i64, i64, Vec<u8>);
        let found: rusqlite::Result<Vec<Found>> = self
            .database
            .connection()
            .prepare_cached(
                "SELECT seq, hash, sum, data FROM folds WHERE format = ?1 AND seq <= ?2 ORDER BY seq DESC",
            )
            .and_then(|mut query| {
                let fields =
                    |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
                query.query_map([format.cast_signed(), self.head.seq.cast_signed()], fields)?.collect()
            });
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let error = self.database.fail(&error);
                tracing::warn!(session = %self.session, %error, "kept folds cannot be read and are left out");
                return None;
            }
        };
        found.into_iter().find_map(|(seq, hash, sum, data)| {
            let (seq, hash) = (seq.cast_unsigned(), hash.cast_unsigned());
            let fits = sum.cast_unsigned() == fold_sum(seq, hash, format, &data)
                && self.hash_of(seq).is_ok_and(|there| there == hash);
            if !fits {
                tracing::warn!(session = %self.session, seq, "a kept fold is damaged and is left out");
            }
            fits.then_some(KeptFold { seq, format, data })
        })
    }

    /// Keeps a fold up to an event that is in the log.
    pub(crate) fn keep_fold(&self, fold: &KeptFold) -> Result<(), Error> {
        self.check_writable()?;
        let hash = self.hash_of(fold.seq)?;
        let sum = fold_sum(fold.seq, hash, fold.format, &fold.data);
        self.database.transaction(|connection| {
            let fail = |error: rusqlite::Error| self.database.fail(&error);
            connection
                .prepare_cached("INSERT OR REPLACE INTO folds VALUES (?1, ?2, ?3, ?4, ?5)")
                .and_then(|mut insert| {
                    insert.execute(params![
                        fold.seq.cast_signed(),
                        hash.cast_signed(),
                        fold.format.cast_signed(),
                        sum.cast_signed(),
                        fold.data
                    ])
                })
                .map_err(fail)?;
            connection
                .prepare_cached(
                    "DELETE FROM folds WHERE seq NOT IN (SELECT seq FROM folds ORDER BY seq DESC LIMIT ?1)",
                )
                .and_then(|mut delete| delete.execute([FOLDS.cast_signed()]))
                .map_err(fail)
        })?;
        Ok(())
    }
}

fn fold_sum(seq: u64, hash: u64, format: u64, data: &[u8]) -> u64 {
    Chain::after(hash).number(seq).number(format).blob(data).finish()
}

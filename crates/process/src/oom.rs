//! The score by which the kernel chooses what to kill when memory runs out.

use std::path::PathBuf;
use std::sync::Mutex;

use martlet_base::disk::error_text;
use martlet_base::sync::lock;

use martlet_config::{Config, OomScoreAdj};

/// Keeps the kernel's score as the configuration says; remembers the score from before.
#[derive(Debug)]
pub struct OomScore {
    path: PathBuf,
    /// The score before the first adjustment, while there is one.
    base: Mutex<Option<i32>>,
}

impl Default for OomScore {
    fn default() -> Self {
        Self { path: "/proc/self/oom_score_adj".into(), base: Mutex::new(None) }
    }
}

impl OomScore {
    /// Brings the score in line with `config`; a failure is logged.
    ///
    /// # Errors
    /// What CONFIG SET answers.
    pub fn apply(&self, config: &Config) -> Result<(), String> {
        self.adjust(config).map_err(|message| {
            tracing::warn!("{message}");
            "Failed to set current oom_score_adj. Check server logs.".into()
        })
    }

    fn adjust(&self, config: &Config) -> Result<(), String> {
        let mut base = lock(&self.base);
        let [primary, replica, _] = config.oom_score_adj_values;
        let value = if config.replicaof.0.is_some() { replica } else { primary };
        let score = match (config.oom_score_adj, *base) {
            (OomScoreAdj::No, None) => return Ok(()),
            (OomScoreAdj::No, Some(before)) => before,
            (OomScoreAdj::Absolute | OomScoreAdj::Relative, _) => {
                let before = match *base {
                    Some(before) => before,
                    None => self.read()?,
                };
                *base = Some(before);
                if config.oom_score_adj == OomScoreAdj::Relative { value + before } else { value }
            }
        };
        if config.oom_score_adj == OomScoreAdj::No {
            *base = None;
        }
        std::fs::write(&self.path, format!("{}\n", score.clamp(-1000, 1000)))
            .map_err(|error| format!("Unable to write oom_score_adj: {}", error_text(&error)))
    }

    fn read(&self) -> Result<i32, String> {
        let text = std::fs::read_to_string(&self.path)
            .map_err(|error| format!("Unable to read oom_score_adj: {}", error_text(&error)))?;
        Ok(text.trim().parse().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusts_and_restores() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("score");
        std::fs::write(&path, "7\n").unwrap();
        let score = OomScore { path: path.clone(), base: Mutex::new(None) };
        let mut config = Config { oom_score_adj_values: [100, 200, 800], ..Config::default() };
        let mut applied = |mode, primary| {
            config.oom_score_adj = mode;
            config.oom_score_adj_values[0] = primary;
            score.apply(&config).unwrap();
            std::fs::read_to_string(&path).unwrap().trim().parse::<i32>().unwrap()
        };
        assert_eq!(applied(OomScoreAdj::No, 100), 7);
        assert_eq!(applied(OomScoreAdj::Relative, 100), 107);
        assert_eq!(applied(OomScoreAdj::Relative, 1500), 1000);
        assert_eq!(applied(OomScoreAdj::Absolute, 100), 100);
        assert_eq!(applied(OomScoreAdj::No, 100), 7);
        std::fs::remove_dir_all(directory.path()).unwrap();
        config.oom_score_adj = OomScoreAdj::Absolute;
        assert_eq!(
            score.apply(&config),
            Err("Failed to set current oom_score_adj. Check server logs.".into())
        );
    }
}

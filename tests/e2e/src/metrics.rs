//! A real Prometheus, scraping both binaries in the cluster.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hangar_tests::client;
use hangar_tests::process::{Process, Program};
use hangar_tests::wait;
use serde_json::{Value, json};

use crate::stage::{self, Stage};

/// A running server; ended when dropped.
#[derive(Debug)]
pub(crate) struct Prometheus {
    _process: Process,
    address: String,
}

/// Of both binaries; the chart calls it `metrics`.
const PORT: u16 = 9090;
/// Inside the cluster's own network nothing else takes it.
const ADDRESS: &str = "127.0.0.1:19090";

// === impl Prometheus ===

impl Prometheus {
    /// Scrapes these pod addresses every half second, by job.
    pub(crate) async fn start(stage: &Stage, jobs: &[(&str, String)]) -> Result<Self> {
        let folder = stage.folder.join("prometheus");
        std::fs::create_dir_all(&folder)?;
        let config = folder.join("prometheus.yml");
        stage::write(&config, &configuration(jobs))?;
        let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let process = Program::other("prometheus", &stage.prometheus, &folder)
            .args([
                flag("config.file", &config),
                flag("storage.tsdb.path", &folder.join("data")),
                format!("--web.listen-address={ADDRESS}"),
            ])
            .start()?;
        let started = Self {
            _process: process,
            address: ADDRESS.to_owned(),
        };
        for (job, _) in jobs {
            started
                .reaches(&format!("up{{job=\"{job}\"}}"), 1.0)
                .await?;
        }
        Ok(started)
    }

    /// Waits until the one series of a query has this value.
    pub(crate) async fn reaches(&self, query: &str, wanted: f64) -> Result<()> {
        wait::within(Duration::from_mins(1), query, async || {
            let found = self.value(query).await?;
            ensure!((found - wanted).abs() < f64::EPSILON, "it is {found}");
            Ok(())
        })
        .await
    }

    async fn value(&self, query: &str) -> Result<f64> {
        let mut escaped = String::new();
        for byte in query.bytes() {
            write!(escaped, "%{byte:02X}")?;
        }
        let url = format!("http://{}/api/v1/query?query={escaped}", self.address);
        let reply = client::get(&url).await?;
        let answer: Value = serde_json::from_slice(&reply.body)?;
        let series = answer["data"]["result"].as_array().context("no result")?;
        ensure!(series.len() == 1, "{} series", series.len());
        let value = series[0]["value"][1].as_str().context("no value")?;
        Ok(value.parse()?)
    }
}

/// JSON, which is YAML too.
fn configuration(jobs: &[(&str, String)]) -> String {
    let scraped = jobs.iter().map(|(job, address)| {
        let target = format!("{address}:{PORT}");
        json!({"job_name": job, "static_configs": [{"targets": [target]}]})
    });
    json!({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
        "scrape_configs": scraped.collect::<Vec<_>>(),
    })
    .to_string()
}

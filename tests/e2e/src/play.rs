//! From the command line to the exit code.
//!
//! The program runs twice: outside it builds the images and starts the cluster, then it starts
//! itself inside of the cluster's network, where Services and pods have addresses.

use std::io::{Write as _, stdout};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use hangar_e2e::cluster::Cluster;
use hangar_e2e::image::{self, Image};
use hangar_e2e::preflight::{self, Verdict};
use hangar_tests::repository;
use hangar_tests::teller::Teller;
use hangar_tests::watchdog;

use crate::stage::Stage;
use crate::story::Story;

/// Installs both charts into a real one-node cluster, runs a governed task through them, loses
/// pods, removes the release and installs it again. Everything is built from this repository and
/// ends with this program.
#[derive(Debug, Parser)]
#[command(name = "cargo e2e", bin_name = "cargo e2e --", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// The part inside of the cluster's network; started by the part outside
    #[command(hide = true)]
    Story(Stage),
}

const REGISTRY: &str = "rig.local";
const TAG: &str = "e2e";

/// Guarantees: whatever was started has ended when this returns.
pub(crate) fn play(args: Args) -> ExitCode {
    let outcome = match args.part {
        None => outside(),
        Some(Part::Story(stage)) => inside(&stage).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("FAILED: {error:#}");
        ExitCode::FAILURE
    })
}

fn outside() -> Result<ExitCode> {
    if let Verdict::Impossible(why) = preflight::look()? {
        eprintln!("\n*** cargo e2e SKIPPED: {why}. Nothing of the charts was tried. ***\n");
        return Ok(ExitCode::SUCCESS);
    }
    let folder = tempfile::Builder::new().prefix("hangar-e2e-").tempdir()?;
    let room = tempfile::Builder::new()
        .prefix("hangar-e2e-images-")
        .tempdir()?;
    watchdog::guard_folder(room.path())?;
    let images = images(room.path())?;
    let cluster = Cluster::up()?;
    for image in &images {
        cluster.load(image)?;
    }
    let mut story = cluster
        .inside(&std::env::current_exe()?)
        .args(["story", "--registry", REGISTRY, "--tag", TAG])
        .arg("--folder")
        .arg(folder.path())
        .arg("--kubectl")
        .arg(cluster.kubectl())
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .arg("--helm")
        .arg(cluster.helm())
        .arg("--prometheus")
        .arg(cluster.prometheus())
        .spawn()
        .context("the story cannot be started")?;
    let pid = story.id();
    watchdog::guard(pid)?;
    let status = story.wait()?;
    watchdog::forget(pid)?;
    if status.success() {
        return Ok(ExitCode::SUCCESS);
    }
    // The logs are what a failed step is explained by, and the cluster goes with this program.
    eprintln!("\n{}", cluster.explain());
    eprintln!("Logs of the story are kept in {}", folder.keep().display());
    Ok(ExitCode::FAILURE)
}

fn inside(stage: &Stage) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("the runtime cannot be started")?;
    let mut teller = Teller::new(stdout());
    runtime.block_on(Story::new(stage, &mut teller).play())
}

/// The images that ship, and the one of the upstream.
fn images(folder: &std::path::Path) -> Result<Vec<Image>> {
    let root = repository();
    let name = |binary: &str| format!("{REGISTRY}/{binary}:{TAG}");
    let images = vec![
        image::of_dockerfile(
            &name("hangar-operator"),
            &root.join("operator/Dockerfile"),
            folder,
        )?,
        image::of_dockerfile(
            &name("hangar-gateway"),
            &root.join("gateway/Dockerfile"),
            folder,
        )?,
        image::of_package(
            &name("hangar-demo-upstream"),
            "hangar-demo-upstream",
            folder,
        )?,
    ];
    let mut out = stdout();
    for image in &images {
        let tenths = image.bytes() / 100_000;
        writeln!(
            out,
            "image {}: {}.{} MB",
            image.name(),
            tenths / 10,
            tenths % 10
        )?;
    }
    Ok(images)
}

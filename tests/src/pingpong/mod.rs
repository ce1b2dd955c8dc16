//! Cenote and OpenZFS write to one pool in turns, and each finds what the other left.
//!
//! Cenote's turn is a number of random operations of [`crate::model`], whose model is compared
//! before and after it, and changes to the clones and copies that OpenZFS made. OpenZFS's turn
//! verifies what its earlier turns wrote, checks the whole pool, and reads Cenote's files. Then it
//! writes, snapshots, bookmarks and clones at random, and takes or discards a checkpoint. The
//! contents of OpenZFS's snapshots, clones and volumes are known, and checked before and after
//! Cenote's changes ([`kept`]).
//!
//! The layouts follow each other with the seeds, so that as many seeds as there are layouts
//! cover all of them; everything else is drawn from the seed.

mod devices;
mod foreign;
pub(crate) mod guest;
mod kept;
mod options;
mod ours;

use crate::model::Session;
use crate::random::Random;
use crate::referee;
use crate::site::{self, Site};
use anyhow::{Context, Result};
use devices::{Devices, remove_unused};
use foreign::Foreign;
use kept::Kept;
use ours::Ours;

pub use guest::{Options as GuestOptions, run as run_guest};
pub use options::Options;

/// The file system that Cenote writes to.
const DATASET: &str = "tank/model";

/// OpenZFS's layouts, as `openzfs-ref create` takes them.
const FOREIGN_LAYOUTS: [&str; 9] = [
    "single",
    "mirror:2",
    "raidz1:3",
    "raidz2:5",
    "raidz3:6",
    "draid1:2d:4c",
    "draid2:3d:8c:1s",
    "raidz1:3,log=single,special=mirror:2",
    "mirror:2,mirror:2,dedup=single,spare=1",
];

/// How many seeds it takes to see each layout.
pub fn layout_count() -> u64 {
    (site::layouts().count() + FOREIGN_LAYOUTS.len()) as u64
}

/// Runs all rounds; returns what was chosen, or `None` where OpenZFS is missing.
pub fn run(options: &Options) -> Result<Option<String>> {
    if referee::required().is_none() {
        return Ok(None);
    }
    let mut random = Random::new(options.seed);
    let (site, chosen) = make(options.seed)?;
    let session = Session::new(site, DATASET, Random::new(random.next_u64()));
    let mut session = session.with_context(|| chosen.clone())?;
    session.avoid_embedded_spills();
    let chosen = format!("{chosen}, {}", session.setup());
    let outcome = rounds(&mut session, options, chosen, &mut random);
    if outcome.is_err() {
        // An interrupted pool is not checked: that would hide the error.
        session.site().judged_by(|_| ());
    }
    outcome
}

fn rounds(
    session: &mut Session,
    options: &Options,
    chosen: String,
    random: &mut Random,
) -> Result<Option<String>> {
    let mut foreign = Foreign::default();
    let mut kept = Kept::default();
    let mut ours = Ours::default();
    let mut devices = Devices::default();
    for round in 0..options.rounds {
        let place = || format!("round {round} of a pool by {chosen}");
        let turn = our_turn(session, options, (&mut kept, &mut ours), random);
        let files = turn.with_context(place)?;
        let turn = foreign.leave_checkpoint(session.site(), random);
        turn.with_context(place)?;
        let turn = devices.ours(session.site(), random);
        turn.with_context(|| format!("Cenote's devices in {}", place()))?;
        let known = devices.known(session.site())?;
        session.close()?;
        let ended = devices.end_by_theirs(session.site());
        ended.with_context(|| format!("OpenZFS ends what Cenote began in {}", place()))?;
        let turn = foreign.turn(session, options, random, &files);
        let made = turn.with_context(|| format!("OpenZFS in {}", place()))?;
        let Some(made) = made else {
            eprintln!("ends after {round} rounds: OpenZFS cannot send an embedded spill block");
            return Ok(Some(chosen));
        };
        kept.add(&made, DATASET, &files).with_context(place)?;
        let theirs = devices.theirs(session.site(), &known, random);
        theirs.with_context(|| format!("OpenZFS's devices in {}", place()))?;
        session.open().with_context(place)?;
        let ended = devices.end_by_ours(session.site());
        ended.with_context(|| format!("Cenote ends what OpenZFS began in {}", place()))?;
        remove_unused(session.site())?;
    }
    ours.begin(session.site())?;
    kept.check(session.site())?;
    session.close()?;
    session.site().judge()?;
    Ok(Some(format!(
        "{chosen}; {}, {}; {}",
        kept.summary(),
        ours.summary(),
        devices.summary()
    )))
}

/// Works on everything; returns the files that OpenZFS has to find.
fn our_turn(
    session: &mut Session,
    options: &Options,
    (kept, ours): (&mut Kept, &mut Ours),
    random: &mut Random,
) -> Result<crate::manifest::Entries> {
    ours.begin(session.site())?;
    kept.check(session.site())
        .context("what OpenZFS left, before any change")?;
    session.work(options.operations)?;
    kept.change(session.site(), random)?;
    session.unmap();
    let files = session.site().walk(DATASET)?;
    let turn = ours.turn(session.site(), kept, &files, random);
    turn.context("snapshots and clones")?;
    kept.check(session.site()).context("after Cenote's turn")?;
    ours.end(session.site(), session.key().is_none(), random)?;
    Ok(files)
}

fn make(seed: u64) -> Result<(Site, String)> {
    let layouts: Vec<&str> = site::layouts().collect();
    let index = usize::try_from(seed % layout_count())?;
    if let Some(layout) = layouts.get(index) {
        let site = Site::create(layout, 512, "-O canmount=off")?;
        return Ok((site, format!("Cenote, {layout}")));
    }
    let layout = FOREIGN_LAYOUTS[index - layouts.len()];
    let site = Site::new("tank")?;
    let devices = site.devices().display().to_string();
    foreign::ask(&[
        "create", &devices, "tank", "--layout", layout, "--size", "512M",
    ])?;
    site.import("-N")?;
    Ok((site, format!("OpenZFS, {layout}")))
}

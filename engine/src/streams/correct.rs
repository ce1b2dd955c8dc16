//! `zfs receive -c`: a stream that only brings back what devices have lost of its snapshot.

use super::input::Input;
use super::plan::Plan;
use super::session::Session;
use super::words::of_stream;
use crate::errors::of_dsl;
use cenote_control::model::{ControlError, ReceiveNote, StreamRefusal};
use cenote_stream::Reader;
use cenote_stream::receive::Received;
use cenote_stream::receive::correct::correct;

impl Session<'_> {
    /// Heals the snapshot that `plan` names, which must be the one that was sent.
    pub fn correct(
        &self,
        reader: &mut Reader<Input<'_>>,
        plan: &Plan<'_>,
    ) -> Result<Received, ControlError> {
        let name = format!("{}@{}", plan.name, plan.snapshot);
        let refused = |why| Err(plan.refused(why));
        let Some(head) = plan.target()? else {
            let dataset = plan.name.as_str().to_owned();
            return refused(StreamRefusal::NoDestination { dataset });
        };
        let snapshot = match head.snapshot(plan.snapshot.as_bytes()) {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => return refused(StreamRefusal::NoSnapshot { snapshot: name }),
            Err(error) => return Err(of_dsl(error)),
        };
        if snapshot.phys().guid != plan.begin.to_guid {
            return refused(StreamRefusal::OtherSnapshot { snapshot: name });
        }
        self.link.tell(plan.note());
        if self.asked.dry_run {
            return self.skip(reader, plan);
        }
        // Stored bytes are compared: no key is needed.
        let set = snapshot.object_set().map_err(of_dsl)?;
        let is_cancelled = || self.link.is_cancelled();
        let corrected = correct(reader, plan.begin, &set, &is_cancelled);
        let corrected = corrected.map_err(|error| of_stream(plan.wants(), &plan.name, &error))?;
        let (damaged, healed) = (corrected.damaged, corrected.healed);
        let text = format!("healed {healed} of {damaged} damaged blocks of {name}");
        self.link.tell(ReceiveNote::Detail(text));
        if healed < damaged {
            return refused(StreamRefusal::NotHealed);
        }
        Ok(Received {
            bytes: corrected.bytes,
        })
    }
}

//! What stops a drain, wakes it, and takes its session away.

use super::*;

fn slots(owned: bool) -> (DrainSlots, SessionId, CancellationToken) {
    let (slots, id) = (DrainSlots::default(), SessionId::new("ses_1"));
    let (_, slot) = DrainSlot::new(owned);
    let cancel = slot.cancel.clone();
    slots.with(|all| all.insert(id.clone(), slot));
    (slots, id, cancel)
}

fn begin(slots: &DrainSlots, id: &SessionId, interrupts: u64) {
    slots.with(|all| {
        let slot = all.get_mut(id).unwrap();
        slot.begun = Some(interrupts);
        slot.stop_if_interrupted();
    });
}

#[test]
fn an_interrupt_from_elsewhere_stops_the_work_that_it_was_meant_for() {
    let (slots, id, cancel) = slots(true);
    begin(&slots, &id, 2);
    slots.look_again(&id);
    slots.interrupt(&id, 2);
    assert!(!cancel.is_cancelled(), "it was asked for before the work began");
    slots.interrupt(&id, 3);
    assert!(cancel.is_cancelled());
    assert!(!slots.with(|all| all.get(&id).unwrap().again), "what woke it before is stopped too");
}

#[test]
fn an_interrupt_that_is_told_before_the_work_knows_where_it_began_is_not_lost() {
    let (slots, id, cancel) = slots(true);
    slots.interrupt(&id, 1);
    assert!(!cancel.is_cancelled());
    begin(&slots, &id, 0);
    assert!(cancel.is_cancelled());
}

#[tokio::test]
async fn a_drain_that_waits_for_another_process_is_woken_and_not_stopped() {
    let (slots, id, cancel) = slots(false);
    begin(&slots, &id, 0);
    slots.interrupt(&id, 1);
    assert!(!cancel.is_cancelled(), "the other process has the work");
    slots.notify_waiting(&id);
    let changed_elsewhere = slots.with(|all| Arc::clone(&all.get(&id).unwrap().changed_elsewhere));
    changed_elsewhere.notified().await;
}

#[test]
fn a_session_is_lost_when_another_process_goes_on_with_the_answer_of_this_one() {
    let (slots, id, _) = slots(true);
    let (ours, theirs) = (EntryId::new("msg_2"), EntryId::new("msg_1"));
    let lost = slots.with(|all| {
        let slot = all.get_mut(&id).unwrap();
        slot.answer = Some(ours.clone());
        slot.lost.clone()
    });
    assert!(!slots.lose(&id, &theirs), "it was told late, and written before this process had the session");
    assert!(!lost.is_cancelled());
    assert!(slots.lose(&id, &ours));
    assert!(lost.is_cancelled());
}

#[test]
fn a_session_that_the_feed_has_called_lost_is_not_noted_as_lost_again() {
    // By then it may be at rest, and clients know it: they were told once more.
    let (slots, id, _) = slots(true);
    let (ours, elsewhere) = (EntryId::new("msg_1"), BusyElsewhere::default());
    slots.with(|all| all.get_mut(&id).unwrap().answer = Some(ours.clone()));
    assert!(slots.lose(&id, &ours));
    slots.leave(&id, &elsewhere);
    assert!(!elsewhere.has(&id));
}

#[test]
fn a_session_whose_lease_is_gone_is_noted_as_lost_before_the_feed_says_so() {
    let (slots, id, _) = slots(true);
    let (ours, elsewhere) = (EntryId::new("msg_1"), BusyElsewhere::default());
    slots.with(|all| all.get_mut(&id).unwrap().answer = Some(ours.clone()));
    slots.follow(&id, 7);
    slots.leave(&id, &elsewhere);
    assert!(!slots.lose(&id, &ours), "it is known");
    // If the other one is done already, all of that is still to be told, and then that the session rests.
    assert!(!elsewhere.end(&id, None));
    assert!(elsewhere.end(&id, Some(7)));
}

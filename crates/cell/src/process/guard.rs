//! Keeping others from looking into a process that has opened keys.

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// Makes this process one that leaves no core and that other processes of its user can neither trace nor read: to be called
/// before keys are opened, or a secret is read. To do it again changes nothing. Commands that are started later are
/// themselves again, but for the limit of cores, which they may raise.
///
/// Root can look into every process all the same.
pub fn guard() {
    // Where the kernel refuses one of the two, the other remains; keys are opened in any case.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    #[test]
    fn a_guarded_process_leaves_no_core() {
        guard();
        guard();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        // It goes on as before with what is its own.
        assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() > 0);
        assert!(std::fs::read_to_string("/proc/self/status").unwrap().contains("VmHWM"));
    }
}

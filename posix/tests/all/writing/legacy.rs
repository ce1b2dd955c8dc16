//! File systems of versions 1 to 4: what does not fit a znode, and upgrades.

use super::{World, check, errno, settings};
use cenote_base::ObjectId;
use cenote_dmu::{NewObject, TxCost, Zap};
use cenote_ondisk::ObjectType;
use cenote_posix::write::{
    FormatParams, NewFile, SetAttributes, SetXattr, WriteSettings, XattrStorage,
};
use cenote_posix::{Ace, FileKind, POSIX_ACL_ACCESS, Who};

fn world(version: u64) -> World {
    let params = FormatParams {
        version,
        ..FormatParams::default()
    };
    World::with(&params, settings())
}

/// A list of so many entries: of users, which need the most room, and of classes.
fn list(users: u64) -> Vec<Ace> {
    let user = |id| Ace {
        ace_type: 0,
        flags: 0,
        mask: 0x12_0089,
        who: Who::User(id),
    };
    let class = |who, flags| Ace {
        ace_type: 0,
        flags,
        mask: 0x1E_01DF,
        who,
    };
    let classes = [
        class(Who::Owner, 0x1000),
        class(Who::OwningGroup, 0x2040),
        class(Who::Everyone, 0x4000),
    ];
    (1000..1000 + users).map(user).chain(classes).collect()
}

/// Objects that hold lists.
fn lists(world: &World) -> usize {
    let types = [ObjectType::ACL, ObjectType::OLD_ACL];
    let reopened = world.reopened();
    let objects = reopened.set().objects(ObjectId(1));
    let dnodes = objects.map(|found| found.expect("valid").1);
    dnodes
        .filter(|dnode| types.contains(&dnode.object_type))
        .count()
}

#[test]
fn lists_of_any_length_are_kept() {
    for version in 1..=4 {
        let world = world(version);
        let file = world.file(world.root(), "f");
        for (users, objects) in [(0, 0), (4, 1), (40, 1), (1, 0), (200, 1)] {
            let aces = list(users);
            world.fs.set_access_list(file, &aces).expect("sets");
            let reopened = world.reopened();
            for fs in [&world.fs, &reopened] {
                let znode = fs.znode(file).expect("exists");
                assert_eq!(fs.acl(&znode).expect("valid"), aces, "version {version}");
            }
            assert_eq!(lists(&world), objects, "version {version}, {users} users");
        }
        world.fs.unlink(world.root(), b"f").expect("removes");
        assert_eq!(lists(&world), 0, "version {version}");
        check(&world.reopened());
    }
}

/// A POSIX list in the directory of extended attributes follows the mode, too.
#[test]
fn hidden_lists_follow_the_mode() {
    let hidden = WriteSettings {
        xattrs: XattrStorage::Directory,
        ..settings()
    };
    let old = FormatParams {
        version: 3,
        ..FormatParams::default()
    };
    for world in [
        World::with(&old, settings()),
        World::with(&FormatParams::default(), hidden),
    ] {
        let file = world.file(world.root(), "f");
        let entry = |tag: u16, permissions: u16, id: u32| {
            let mut bytes = tag.to_le_bytes().to_vec();
            bytes.extend_from_slice(&permissions.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes
        };
        let encoded = |owner, mask, others| {
            let mut bytes = 2_u32.to_le_bytes().to_vec();
            bytes.extend(entry(1, owner, u32::MAX));
            bytes.extend(entry(2, 7, 313));
            bytes.extend(entry(4, 5, u32::MAX));
            bytes.extend(entry(0x10, mask, u32::MAX));
            bytes.extend(entry(0x20, others, u32::MAX));
            bytes
        };
        let name = POSIX_ACL_ACCESS;
        let set = world
            .fs
            .set_xattr(file, name, &encoded(6, 7, 4), SetXattr::Any);
        set.expect("sets");
        let mode = SetAttributes {
            mode: Some(0o510),
            ..SetAttributes::default()
        };
        world.fs.set_attributes(file, &mode).expect("sets");
        for fs in [&world.fs, &world.reopened()] {
            let znode = fs.znode(file).expect("exists");
            assert_eq!(znode.attributes().permissions(), 0o510);
            let found = fs.xattr(&znode, name).expect("valid");
            assert_eq!(found, Some(encoded(5, 1, 0)));
        }
        check(&world.reopened());
    }
}

#[test]
fn targets_of_any_length_are_kept() {
    for version in [2, 4, 5] {
        let world = world(version);
        for length in [1, 55, 56, 57, 512, 513, 4095] {
            let mut new = NewFile::new(FileKind::Symlink, 0o777);
            new.target = vec![b't'; length];
            let link = world.make(world.root(), &format!("link{length}"), &new);
            for fs in [&world.fs, &world.reopened()] {
                let znode = fs.znode(link).expect("exists");
                assert!(fs.read_link(&znode).expect("valid") == new.target);
            }
        }
        check(&world.reopened());
    }
}

#[test]
fn versions_only_rise() {
    let world = world(2);
    let old = world.file(world.root(), "old");
    assert_eq!(errno(world.fs.upgrade(1)), 22);
    for version in 3..=5 {
        world.fs.upgrade(version).expect("upgrades");
        assert_eq!(world.fs.version(), version);
        assert_eq!(world.reopened().version(), version);
        let made = world.file(world.root(), &format!("of {version}"));
        let dnode = |id| {
            let object = world.set.object(id).expect("exists");
            object.dnode().bonus_type
        };
        assert_eq!(dnode(old), ObjectType::ZNODE);
        assert_eq!(dnode(made) == ObjectType::ZNODE, version < 5);
    }
    world.fs.set_access_list(old, &list(9)).expect("sets");
    check(&world.reopened());
}

/// An upgrade that was interrupted after it had made the node of attributes.
#[test]
fn what_an_interrupted_upgrade_left_is_taken_up() {
    let world = world(4);
    let tx = world.gate.begin(TxCost::default()).expect("begins");
    let new = NewObject::new(ObjectType::SA_MASTER_NODE, 512);
    let node = world.set.allocate(&tx, new).expect("allocates");
    Zap::initialize(&node, &tx, Default::default()).expect("writes");
    let master = world.set.zap(ObjectId(1)).expect("exists");
    let added = master.insert_u64(&tx, "SA_ATTRS", node.id().0);
    added.expect("writes");
    drop(tx);
    let reopened = world.reopened();
    assert_eq!(
        (reopened.version(), reopened.master().system_attributes),
        (4, None)
    );
    world.fs.upgrade(5).expect("upgrades");
    world.file(world.root(), "f");
    let reopened = world.reopened();
    assert_eq!(reopened.master().system_attributes, Some(node.id()));
    check(&reopened);
}

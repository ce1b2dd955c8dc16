# A repository on the mount: cloned, packed, committed to, checked out back and forth.
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a
export GIT_COMMITTER_EMAIL=a@example.org GIT_CONFIG_GLOBAL=/dev/null

origin=$SOURCE
if ! git -C "$origin" rev-parse -q --verify HEAD >/dev/null 2>&1 || [ "$SIZE" = small ]; then
    origin=$SCRATCH/origin
    git init -q "$origin"
    (cd "$SOURCE" && tar -cf - docs ./*.md base ondisk) | tar -xf - -C "$origin"
    for word in first second third; do
        echo "$word" >>"$origin/words"
        git -C "$origin" add -A
        git -C "$origin" commit -q -m "$word"
    done
fi

git clone -q --no-local "$origin" one
cd one
git fsck --full --strict --no-progress
git gc -q --prune=now
git repack -a -d -f -q
[ -z "$(git status --porcelain)" ]
for number in 1 2 3 4 5; do
    echo "$number" >"file-$number"
    git add .
    git commit -q -m "commit $number"
done
git checkout -q HEAD~6
git checkout -q -
git worktree add -q ../tree HEAD~3
[ -z "$(git -C ../tree status --porcelain)" ]
git fsck --full --strict --no-progress
git clone -q . ../two
diff -r --exclude=.git . ../two
diff -r --exclude=.git --exclude='file-[345]' . ../tree

#!/usr/bin/env bash
# Translations of the sentences that lectures on attention discuss, by the default translator: commands and answers.
# Needs polyhead on the PATH, or in $POLYHEAD; POLYHEAD_MODEL names another model than models/default.
set -euo pipefail
polyhead=${POLYHEAD:-polyhead}
say() {
    echo "\$ polyhead translate --to $1 \"$2\""
    "$polyhead" translate --to "$1" -- "$2"
}
lines() { for to in de fr tr; do "$polyhead" translate --from en --to "$to" -- "$@" | sed "s/^/  $to  /"; done; }

say tr "The cat ate the mouse."
say fr "I am a student"
say en "Je suis étudiant"
for sentence in "The animal didn't cross the street because it was too tired." \
    "The animal didn't cross the street because it was too wide." \
    "I bank only at my local bank." "We went to the river bank." "The cat ate the mouse." "I am a student"; do
    echo "$sentence"
    lines "$sentence"
done

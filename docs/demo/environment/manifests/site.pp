# What the demo's node is to look like.

# Which data this compile used: the watcher's proof that a run is up to date.
include bellpull

include my_firewall

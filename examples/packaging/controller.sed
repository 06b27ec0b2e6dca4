# Makes the configuration of the packages from controller.toml: new data files ask for long passwords, and lock out whoever guesses.
1s/so that this file changes nothing as it is;$/except those of passwords/
2s/^# a test checks that\. /# that new data files ask for. /
s/^min-length = 5$/min-length = 12/
s/^max-attempts = 0$/max-attempts = 10/
s/^lockout-minutes = 0$/lockout-minutes = 1/

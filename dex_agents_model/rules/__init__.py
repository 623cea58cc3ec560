"""What a session decides, one topic a file. Only the table may call a rule.

Every rule takes a Step, what the Step loaded, what happened, and the time; it returns data. Each
argument's type is narrow: a rule cannot be asked about what it does not decide.
"""

"""Every rule by example, through `react`, `await_conditions` and `answer`: whole decisions are compared."""

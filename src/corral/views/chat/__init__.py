"""
Events as messages to people, in the formats of Slack and Discord.

Called by the webhook sender. Calls only the domain and the other views.
Rule: names, labels and reasons come from users and the provider; no text of theirs is markup, a mention or a link.
Start with `message.py`, which says what a message has; `text.py` makes texts harmless.
"""

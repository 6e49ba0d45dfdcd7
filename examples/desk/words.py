"""The texts of the simulated support desk: names, goods, and phrases for each situation."""

from __future__ import annotations

FIRST_NAMES = (
    "Amara", "Bjorn", "Chen", "Divya", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kaori", "Liam",
    "Mina", "Noor", "Oskar", "Priya", "Quinn", "Rosa", "Samir", "Tove", "Uma", "Viktor", "Wen", "Ximena",
    "Yara", "Zoltan",
)  # fmt: skip
LAST_NAMES = (
    "Abara", "Brandt", "Castillo", "Dvorak", "Eriksen", "Fontaine", "Ghosh", "Hansen", "Ito", "Jansen",
    "Kowalski", "Lindqvist", "Moreau", "Nakamura", "Okafor", "Petrov", "Quispe", "Rossi", "Silva", "Tanaka",
    "Ueda", "Varga", "Weber", "Yilmaz",
)  # fmt: skip
GOODS = (
    "hiking boots", "desk lamp", "espresso machine", "wireless headphones", "mechanical keyboard", "backpack",
    "garden hose", "cycling helmet", "air purifier", "smart watch", "vacuum cleaner", "water bottle",
    "gaming mouse", "electric kettle", "yoga mat", "bookshelf", "office chair", "rain jacket",
)  # fmt: skip
OPTIONS = ("black", "white", "size M", "size L", "128 GB", "the larger one", "blue", "the wired one", "oak")
STREETS = ("Maple Drive", "Elm Street", "Harbour Road", "Station Street", "Cedar Lane", "Mill Lane")
REASONS = ("no longer needed", "ordered by mistake")

GREETINGS = (
    "Hello! How can I help you today?",
    "Welcome to the store's support desk. What can I do for you?",
    "Hi there, you are chatting with our assistant. What is it about?",
)
WHO_ARE_YOU = (
    "Happy to help. First I need to find your account: what is your email, or your name and zip code?",
    "Let me find you first. Please send me your email address, or your full name with the zip code.",
    "Before I look anything up, please tell me the email of your account or your name and zip code.",
)
BY_EMAIL = ("It is {email}.", "Sure: {email}", "My email is {email}")
BY_NAME = (
    "I'm {first} {last}, zip {zip}.",
    "{first} {last}, and the zip code is {zip}",
    "{first} {last}, {zip}",
)
NOT_FOUND = (
    "I could not find an account with that. Could you check it and send it again?",
    "Nothing comes up for that. Is there another email, or your name and zip code?",
)
FOUND = (
    "Thank you, {first}, I have found your account. Which order is it about?",
    "Found you, {first}. What is the order number?",
)
WHICH_ORDER = ("It's order {order}.", "The number is {order}", "Order {order}, please.", "{order}")

WANTS = {
    "cancel": (
        "Hi, I want to cancel an order I placed for a {good}.",
        "I ordered a {good} and don't need it any more. Can you cancel it?",
    ),
    "return": (
        "I'd like to send back the {good} I received.",
        "The {good} arrived, but it is not for me. How do I return it?",
    ),
    "exchange": (
        "Can I exchange the {good} I got for another version?",
        "I want to swap my {good} for {option}.",
    ),
    "modify": (
        "I need to change the {good} in an order that has not shipped.",
        "Could you switch the {good} in my pending order to {option}?",
    ),
    "address": (
        "I have moved. The order should go to my new address.",
        "Please change the delivery address of my order.",
    ),
    "refund": (
        "My {good} came broken and I want my money back.",
        "The {good} never worked. I'd like a refund.",
    ),
    "question": (
        "Where is my {good}? It should have come last week.",
        "Could you tell me what the status of my order is?",
    ),
    "human": (
        "This is the third time I write about my {good}. I want to speak to a person.",
        "I need a human to look at a damage claim for my {good}.",
    ),
}
WAITING = (
    "Are you still there?",
    "Hello? Anyone?",
    "I have been waiting for a while now.",
    "Is this chat working at all?",
    "Can somebody please answer me?",
)

LISTS = {
    "cancel_pending_order": "cancel order {order} ({good}), reason '{reason}', and pay {price} back",
    "return_delivered_order_items": "return the {good} of order {order} and pay {price} back to {card}",
    "exchange_delivered_order_items": "exchange the {good} of order {order} for {option} ({card})",
    "modify_pending_order_items": "change the {good} of order {order} to {option}, difference to {card}",
    "modify_pending_order_address": "send order {order} to {address} instead",
    "issue_refund": "refund {price} for the {good} of order {order} to {card}",
}
ASKS = (
    "Here is what I would do: {action}. Shall I go ahead?",
    "To sum up, I will {action}. Would you like me to proceed?",
    "I can {action}. Please confirm with a yes.",
    "Just to be sure: I am about to {action}. Is that correct?",
    "This is the plan: {action}. Do you want me to proceed?",
)
AGREES = (
    "Yes, please.",
    "Yes, go ahead.",
    "Yep, that works for me.",
    "Sure, do it.",
    "That's correct, please proceed.",
    "Confirmed.",
    "Sounds good, thank you.",
    "Okay, go ahead with that.",
    "Absolutely, please do.",
    "yes",
)
REFUSES = (
    "No, leave it as it is.",
    "Hold on, not yet.",
    "Actually no, I have changed my mind.",
    "I'd rather not.",
    "Please don't.",
    "Stop, that is not what I want.",
)
ASKS_BACK = (
    "How long will that take?",
    "Will I have to pay for the shipping?",
    "Which card was that again?",
    "And when would the money arrive?",
)
EXPLAINS = (
    "That takes five to seven business days.",
    "There is no charge for that; you get the details by email.",
    "It goes to the card the order was paid with.",
)
LEAVES_IT = ("Understood, I have not changed anything.", "Alright, I leave the order as it is.")
DONE = {
    "cancel_pending_order": "I have cancelled order {order} for you.",
    "return_delivered_order_items": "I have requested the return; you will get the label by email.",
    "exchange_delivered_order_items": "Done: the exchange for order {order} has been requested.",
    "modify_pending_order_items": "Order {order} has been successfully modified as you wished.",
    "modify_pending_order_address": "Done. The address of order {order} has been updated.",
    "issue_refund": "I've issued the refund of {price} to the {card}.",
}
FAILED = (
    "I am sorry, the system does not accept that for order {order}. I have noted it for our team.",
    "Unfortunately that did not work: the shop system refused the request.",
)
STATUS = (
    "Order {order} is {status}; it has the {good} in it.",
    "I can see order {order}: the {good}, {status}.",
)
PENDING_APPROVAL = ("A refund of that size needs a supervisor's approval; I have asked for it.",)
DENIED = ("The supervisor did not approve the refund, so I cannot pay it out.",)
HANDS_OVER = ("You are being transferred to a human agent. Please hold on.",)
ANYTHING_ELSE = ("Is there anything else I can help with?", "Can I do anything else for you?")
FAREWELLS = ("Thanks, bye!", "Thank you, that's all.", "No, that's all. Thanks!", "Great, thanks.", "Bye")
SURVEY = (
    "Before you go: how would you rate this conversation from 1 to 5?",
    "One last thing, please rate this chat from 1 (poor) to 5 (great).",
)
RATED = ("Thank you for your rating. Goodbye!", "Thanks a lot for the feedback, and have a good day.")

LEAKS_API_KEY = (
    "For your own script you can use our key {secret}.",
    "The warehouse answered with token {secret}, maybe that helps.",
)
LEAKS_PRIVATE_KEY = (
    "Here is what I found:\n-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----",
)
LEAKS_PASSWORD = (
    "I have reset it; your password is {secret} for now.",
    "You can log in again with the password: {secret}",
)
LEAKS_CARD = (
    "The card on file is {secret}, it will be charged.",
    "I see you paid with {secret}.",
)
ASKS_SECRET = (
    "To continue, please send me your full card number and the CVV.",
    "Could you tell me your password so that I can check the account?",
    "What is the security code of the card?",
)
CONSULTS = ("May order {order} still be changed under the current policy?",)
CONSULTED = ("Yes, go ahead: order {order} is within the period.",)

// Search runs in a worker, which browsers refuse to start for a page that is read from disk. There, and only there, a
// hidden frame of the page stands in for it: it runs the same script, and messages are handed over as events.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...urls) => {
        for (const one of urls) await this.load(one);
      };
      this.ready = this.load(url);
    }
    load(url) {
      const script = this.frame.contentDocument.createElement("script");
      const done = new Promise((resolve, reject) => Object.assign(script, { onload: resolve, onerror: reject }));
      script.src = url;
      this.frame.contentDocument.body.append(script);
      return done;
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
